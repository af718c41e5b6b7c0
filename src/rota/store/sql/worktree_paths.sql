SELECT path FROM worktree

DELETE FROM worktree WHERE path = :path

SELECT run_id, handle, repository, path, branch, base, made_at, kept_at, kept_why FROM worktree WHERE kept_at IS NOT NULL ORDER BY made_at, run_id

SELECT run_id, handle, repository, path, branch, base, made_at, kept_at, kept_why FROM worktree WHERE run_id = :run_id ORDER BY made_at DESC LIMIT 1

-- What earlier starts of a run made and never used.
SELECT run_id, handle, repository, path, branch, base, made_at, kept_at, kept_why FROM worktree WHERE run_id = :run_id AND kept_at IS NULL

INSERT INTO worktree (run_id, handle, repository, path, branch, base, made_at)
VALUES (:run_id, :handle, :repository, :path, :branch, :base, :made_at)

-- Those whose run or direct call is over, or gone: nobody works there any more, and nobody has looked at them.
SELECT worktree.run_id, worktree.handle, worktree.repository, worktree.path, worktree.branch, worktree.base, worktree.made_at, worktree.kept_at, worktree.kept_why, coalesce(run.status, execution.status),
    coalesce(run.started_at, execution.started_at)
FROM worktree LEFT JOIN run ON run.id = worktree.run_id LEFT JOIN execution ON execution.id = worktree.run_id
WHERE worktree.kept_at IS NULL AND (run.id IS NULL OR run.finished_at IS NOT NULL)
  AND (execution.id IS NULL OR execution.finished_at IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM direct_wait WHERE direct_wait.id = worktree.run_id)

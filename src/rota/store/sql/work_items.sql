-- name: work_intend
-- A run that returned to the queue makes another claim: the release of its first one may be pending.
INSERT INTO work_item (claim, run_id, handle, source, source_key, asked_at, state)
SELECT CAST(:run_id AS text) || CASE count(*) WHEN 0 THEN '' ELSE '.' || (count(*) + 1) END, :run_id, :handle, :source, :source_key,
    CAST(:asked_at AS bigint), 'asking'
FROM work_item WHERE run_id = :run_id
RETURNING claim

-- name: work_hold
UPDATE work_item SET state = 'held', item_id = :item_id, item = :item, claimed_at = :claimed_at
WHERE claim = :claim AND state = 'asking'
  AND NOT EXISTS (
    SELECT 1 FROM work_item AS other
    WHERE other.source_key = work_item.source_key AND other.item_id = :item_id AND other.state = 'held'
  )

-- name: work_forget
DELETE FROM work_item WHERE claim = :claim AND state = 'asking'

-- name: work_any_open
SELECT 1 FROM work_item WHERE ended_at IS NULL LIMIT 1

-- name: work_end
UPDATE work_item SET state = :state, ended_at = :ended_at, not_before = :not_before, failed = :failed, report = :report
WHERE claim = :claim AND ended_at IS NULL

-- name: work_late
-- A source that answered after the timeout may have claimed an item.
UPDATE work_item SET state = 'releasing', attempts = 0, not_before = :now, told_at = NULL
WHERE claim = :claim AND state IN ('releasing', 'released', 'given_up') AND item_id IS NULL

-- name: work_due
SELECT claim, run_id, handle, source, asked_at, item, claimed_at, state, ended_at, report, attempts, not_before, told_at, error FROM work_item
WHERE not_before <= :now ORDER BY not_before, claim LIMIT :limit

-- name: work_next_due
SELECT min(not_before) FROM work_item WHERE not_before IS NOT NULL

-- name: work_take
-- No other process takes the report before then.
UPDATE work_item SET attempts = attempts + 1, not_before = :until WHERE claim = :claim AND not_before <= :now

-- name: work_told
UPDATE work_item
SET state = CASE state WHEN 'reporting' THEN 'reported' ELSE 'released' END, not_before = NULL, told_at = :now, error = NULL
WHERE claim = :claim AND state IN ('reporting', 'releasing')

-- name: work_refused
-- `not_before` null: it was tried often enough.
UPDATE work_item
SET state = CASE WHEN CAST(:not_before AS bigint) IS NULL THEN 'given_up' ELSE state END, not_before = :not_before, error = :error,
    told_at = CASE WHEN CAST(:not_before AS bigint) IS NULL THEN CAST(:now AS bigint) END
WHERE claim = :claim AND state IN ('reporting', 'releasing')

-- name: work_of_run
SELECT claim, run_id, handle, source, asked_at, item, claimed_at, state, ended_at, report, attempts, not_before, told_at, error FROM work_item
WHERE run_id = :run_id ORDER BY asked_at DESC, claim DESC LIMIT 1

-- name: work_given_up
-- Abandoned reports, newest first.
SELECT claim, run_id, handle, source, asked_at, item, claimed_at, state, ended_at, report, attempts, not_before, told_at, error FROM work_item
WHERE state = 'given_up' AND told_at >= :since AND (:prefix = '' OR substr(handle, 1, length(:prefix)) = :prefix)
ORDER BY told_at DESC, claim DESC LIMIT :limit

-- name: work_failures
-- The number of runs that failed at an item since its last report.
SELECT count(*) FROM work_item
WHERE source_key = :source_key AND item_id = :item_id AND failed = 1 AND state IN ('releasing', 'released', 'given_up')
  AND claimed_at > coalesce((
    SELECT max(claimed_at) FROM work_item WHERE source_key = :source_key AND item_id = :item_id AND report IS NOT NULL
  ), -1)

-- name: work_holders
SELECT handle FROM work_item WHERE source_key = :source_key AND state = 'held' ORDER BY claimed_at, claim

-- name: work_leave_all
-- Of a restored copy: what runs held when it was made may be worked on where it was made.
UPDATE work_item
SET state = 'given_up', ended_at = coalesce(ended_at, :now), not_before = NULL, told_at = :now, error = :why
WHERE told_at IS NULL

-- name: worktree_store
INSERT INTO worktree (run_id, handle, repository, path, branch, base, made_at)
VALUES (:run_id, :handle, :repository, :path, :branch, :base, :made_at)

-- name: worktree_of_run
SELECT run_id, handle, repository, path, branch, base, made_at, kept_at, kept_why FROM worktree WHERE run_id = :run_id ORDER BY made_at DESC LIMIT 1

-- name: worktree_at
SELECT run_id, handle, repository, path, branch, base, made_at, kept_at, kept_why FROM worktree WHERE path = :path

-- name: worktrees_unused
-- Worktrees of earlier, aborted starts of a run.
SELECT run_id, handle, repository, path, branch, base, made_at, kept_at, kept_why FROM worktree WHERE run_id = :run_id AND kept_at IS NULL

-- name: worktrees_kept
SELECT run_id, handle, repository, path, branch, base, made_at, kept_at, kept_why FROM worktree WHERE kept_at IS NOT NULL ORDER BY made_at, run_id

-- name: worktrees_ended
-- Worktrees of finished or pruned runs and direct calls that are neither kept nor removed yet.
SELECT worktree.run_id, worktree.handle, worktree.repository, worktree.path, worktree.branch, worktree.base, worktree.made_at, worktree.kept_at, worktree.kept_why,
    CASE ended.status WHEN 4 THEN 'COMPLETED' WHEN 5 THEN 'FAILED' WHEN 6 THEN 'SKIPPED' WHEN 7 THEN 'CANCELLED' ELSE call.status END,
    coalesce(ended.started_at, call.started_at)
FROM worktree LEFT JOIN run ON run.id = worktree.run_id LEFT JOIN ended ON ended.run = run.seq LEFT JOIN call ON call.id = worktree.run_id
WHERE worktree.kept_at IS NULL AND (run.id IS NULL OR ended.run IS NOT NULL) AND (call.id IS NULL OR call.finished_at IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM direct_wait WHERE direct_wait.id = worktree.run_id)

-- name: worktree_paths
SELECT path FROM worktree

-- name: worktree_keep
UPDATE worktree SET kept_at = :at, kept_why = :why WHERE path = :path AND kept_at IS NULL

-- name: worktree_forget
DELETE FROM worktree WHERE path = :path

-- name: agent_session
SELECT session_id, usd, tokens_in, tokens_out, tokens_cached,
    coalesce((SELECT run_now.worker_id FROM run_now WHERE run_now.id = agent_session.run_id),
        (SELECT call.worker_id FROM call WHERE call.id = agent_session.run_id)),
    turns, coalesce(began_at, at)
FROM agent_session WHERE job_id = :job_id AND adapter = :adapter

-- name: agent_session_save
INSERT INTO agent_session (job_id, adapter, session_id, run_id, usd, tokens_in, tokens_out, tokens_cached, at, turns, began_at)
VALUES (:job_id, :adapter, :session_id, :run_id, :usd, :tokens_in, :tokens_out, :tokens_cached, :at, :turns, :began_at)
ON CONFLICT (job_id) DO UPDATE SET adapter = excluded.adapter, session_id = excluded.session_id, run_id = excluded.run_id,
    usd = excluded.usd, tokens_in = excluded.tokens_in, tokens_out = excluded.tokens_out,
    tokens_cached = excluded.tokens_cached, at = excluded.at, turns = excluded.turns, began_at = excluded.began_at

-- name: agent_sessions
SELECT job.name, job.id, agent_session.adapter, agent_session.session_id, job.name || ':' || run.number, agent_session.usd, agent_session.turns,
    coalesce(agent_session.began_at, agent_session.at), agent_session.at
FROM agent_session JOIN job ON job.id = agent_session.job_id LEFT JOIN run ON run.id = agent_session.run_id
ORDER BY job.name

-- name: agent_session_drop
DELETE FROM agent_session WHERE job_id = :job_id AND session_id = :session_id

-- name: run_last_completed
SELECT job.name || ':' || run.number, ended.finished_at, ended.result_summary
FROM job JOIN ended ON ended.job = job.seq JOIN run ON run.seq = ended.run
WHERE job.id = :job_id AND ended.status = 4 ORDER BY ended.finished_at DESC, run.number DESC LIMIT 1

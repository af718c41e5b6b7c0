-- name: delivery_insert
INSERT INTO delivery (id, run_id, handle, event, target, own, endpoint, next_at, created_at, subject, payload, line)
VALUES (:id, :run_id, :handle, :event, :target, :own, :endpoint, :now, :now, :subject, :payload, :line)
ON CONFLICT (subject, event, target) DO NOTHING

-- name: delivery_take
UPDATE delivery SET attempts = attempts + 1, next_at = :until WHERE id = :id AND next_at <= :now

-- name: delivery_done
UPDATE delivery SET status = :status, next_at = NULL, finished_at = :now, answer = :answer, error = :error
WHERE id = :id AND next_at IS NOT NULL

-- name: delivery_again
UPDATE delivery SET next_at = :next_at, answer = :answer, error = :error WHERE id = :id AND next_at IS NOT NULL

-- name: delivery_list
SELECT id, run_id, handle, event, target, own, endpoint, status, attempts, next_at, created_at, finished_at, answer, error,
    subject, payload, line
FROM delivery
WHERE (CAST(:status AS text) IS NULL OR status = :status)
  AND (CAST(:run_id AS text) IS NULL OR run_id = :run_id)
  AND (CAST(:target AS text) IS NULL OR target = :target)
  AND (CAST(:job_id AS text) IS NULL OR run_id IN (SELECT run.id FROM run JOIN job ON job.seq = run.job WHERE job.id = :job_id))
ORDER BY created_at DESC, id DESC LIMIT :limit

-- name: delivery_of_run
SELECT id, run_id, handle, event, target, own, endpoint, status, attempts, next_at, created_at, finished_at, answer, error,
    subject, payload, line
FROM delivery WHERE run_id = :run_id ORDER BY created_at, id

-- name: delivery_find
SELECT id, run_id, handle, event, target, own, endpoint, status, attempts, next_at, created_at, finished_at, answer, error,
    subject, payload, line
FROM delivery WHERE id = :id OR substr(id, length(id) - length(:id) + 1) = lower(:id) ORDER BY created_at DESC LIMIT 2

-- name: deliveries_failed
SELECT target, count(*), max(error), max(finished_at) FROM delivery
WHERE created_at >= :since AND status = 'FAILED' AND (:prefix = '' OR substr(handle, 1, length(:prefix)) = :prefix)
GROUP BY target ORDER BY target

-- name: deliveries_counted
SELECT target, status, count(*) FROM delivery WHERE created_at >= :since GROUP BY target, status ORDER BY target, status

-- name: deliveries_shift
UPDATE delivery SET next_at = next_at - :back WHERE next_at IS NOT NULL

-- name: endpoints_shift
UPDATE endpoint SET closed_until = closed_until - :back WHERE closed_until IS NOT NULL

-- name: deliveries_leave
UPDATE delivery SET status = 'FAILED', next_at = NULL, finished_at = :now, error = :error WHERE next_at IS NOT NULL

-- name: deadlines_forget
DELETE FROM deadline

-- name: delivery_repeat
UPDATE delivery SET status = 'PENDING', attempts = 0, next_at = :now, finished_at = NULL, answer = NULL, error = NULL
WHERE id = :id AND status <> 'PENDING'

-- name: deliveries_old
SELECT EXISTS (SELECT 1 FROM delivery WHERE created_at < :before AND finished_at IS NOT NULL)

-- name: delivery_prune
DELETE FROM delivery WHERE id IN (
    SELECT id FROM delivery WHERE created_at < :before AND finished_at IS NOT NULL ORDER BY created_at LIMIT :limit
)

-- name: endpoint_get
SELECT failures, closed_until, disabled_at, error FROM endpoint WHERE endpoint = :endpoint

-- name: endpoints_disabled
SELECT endpoint, disabled_at, error FROM endpoint WHERE disabled_at IS NOT NULL ORDER BY endpoint

-- name: endpoint_fail
INSERT INTO endpoint (endpoint, failures, closed_until, error) VALUES (:endpoint, :failures, :closed_until, :error)
ON CONFLICT (endpoint) DO UPDATE SET failures = :failures, closed_until = :closed_until, error = :error

-- name: endpoint_disable
INSERT INTO endpoint (endpoint, disabled_at, error) VALUES (:endpoint, :now, :error)
ON CONFLICT (endpoint) DO UPDATE SET disabled_at = :now, error = :error

-- name: endpoint_works
DELETE FROM endpoint WHERE endpoint = :endpoint

-- name: failing_of
SELECT target, told_at FROM failing WHERE job_id = :job_id

-- name: failing_over
DELETE FROM failing WHERE job_id = :job_id AND target = :target

-- name: failing_set
INSERT INTO failing (job_id, target, told_at) VALUES (:job_id, :target, :told_at)
ON CONFLICT (job_id, target) DO UPDATE SET told_at = :told_at

-- name: deadline_set
INSERT INTO deadline (run_id, at) VALUES (:run_id, :at)

-- name: deadline_pass_on
UPDATE deadline SET run_id = :run_id WHERE run_id = :failed

-- name: deadline_over
DELETE FROM deadline WHERE run_id = :run_id RETURNING at

-- name: deadline_next
SELECT min(at) FROM deadline

-- name: deadlines_missed
DELETE FROM deadline WHERE run_id IN (
    SELECT run_id FROM deadline WHERE at <= :now ORDER BY at LIMIT :limit
    {{FOR UPDATE SKIP LOCKED}}
)
RETURNING run_id

-- name: audit_budgets
-- The amounts of a window are the sums of its entries.
SELECT budget_window.budget, budget_window.since, budget_window.settled, budget_window.pruned + coalesce(counted.settled, 0),
    budget_window.reserved, coalesce(counted.reserved, 0)
FROM budget_window LEFT JOIN (
    SELECT window_id, sum(settled) AS settled, sum(CASE WHEN settled IS NULL THEN reserved ELSE 0 END) AS reserved FROM budget_entry
    GROUP BY window_id) AS counted ON counted.window_id = budget_window.id
WHERE budget_window.settled <> budget_window.pruned + coalesce(counted.settled, 0)
  OR budget_window.reserved <> coalesce(counted.reserved, 0)
LIMIT :limit

-- name: audit_budget_held
-- A reservation belongs to a starting or active run; requests before a start belong to a run that may
-- still start.
SELECT entry.budget, entry.run_id, entry.estimate IS NOT NULL FROM budget_entry AS entry
LEFT JOIN run ON run.id = entry.run_id LEFT JOIN live ON live.run = run.seq
WHERE entry.settled IS NULL
  AND NOT EXISTS (SELECT 1 FROM direct_wait WHERE direct_wait.id = entry.run_id AND direct_wait.slot IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM direct_hold WHERE direct_hold.execution_id = entry.run_id)
  AND NOT coalesce(live.state >= 2 OR entry.estimate IS NULL AND live.state < 2, false)
LIMIT :limit

-- name: audit_job_id
SELECT id FROM job WHERE name = :name

-- name: audit_spans
SELECT version, spec, digest, schedules, paused, tzdata, since, until FROM job_version WHERE job_id = :job_id ORDER BY version

-- name: audit_pools
-- The used room of a pool is the sum of the current draws.
SELECT pool.name, pool.used, coalesce(counted.cost, 0) FROM pool
LEFT JOIN (
    SELECT lane_pool.pool AS name, sum(lane_pool.cost) AS cost FROM (
        SELECT lane_id FROM live WHERE state >= 2 AND lane_id > 1
        UNION ALL SELECT lane_id FROM call WHERE finished_at IS NULL
        UNION ALL SELECT lane_id FROM direct_wait WHERE slot IS NOT NULL
        UNION ALL SELECT lane_id FROM abandoned) AS holder
    JOIN lane_pool ON lane_pool.lane_id = holder.lane_id GROUP BY lane_pool.pool) AS counted ON counted.name = pool.name
WHERE pool.used <> coalesce(counted.cost, 0)

-- name: audit_work
-- What is asked for or held belongs to something that is about to start or runs.
SELECT item.handle, item.source_key, item.item_id FROM work_item AS item
LEFT JOIN run ON run.id = item.run_id LEFT JOIN live ON live.run = run.seq
WHERE item.ended_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM direct_wait WHERE direct_wait.id = item.run_id AND direct_wait.slot IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM direct_hold WHERE direct_hold.execution_id = item.run_id)
  AND NOT coalesce(live.state >= 2, false)
LIMIT :limit

-- name: audit_clock
-- Whether the wall clock ever went back: a process records each step back, also since the process before it.
SELECT EXISTS (SELECT 1 FROM event WHERE kind = 'clock_set_back')

-- name: audit_doubled_slots
-- One run or direct call for each slot.
SELECT slot, count(*) FROM (
    SELECT worker.id AS worker_id, live.slot FROM live JOIN worker ON worker.seq = live.worker WHERE live.state >= 2
    UNION ALL SELECT worker_id, slot FROM call WHERE finished_at IS NULL
    UNION ALL SELECT worker_id, slot FROM direct_wait WHERE slot IS NOT NULL) AS holder
GROUP BY worker_id, slot HAVING count(*) > 1 LIMIT :limit

-- name: audit_unfinished
SELECT run.id FROM live JOIN run ON run.seq = live.run LEFT JOIN run first ON first.id = run.chain_id
WHERE live.job = (SELECT seq FROM job WHERE id = :job_id) AND 'schedule' IN (run.trigger, first.trigger) LIMIT 1

-- name: audit_last_end
-- When the last run of a job ended, until when it backs off, and its newest scheduled row: what its next instant depended on.
SELECT (SELECT max(finished_at) FROM ended WHERE ended.job = job.seq), job.backing_off_until, newest.scheduled_for, ended.reason
FROM job LEFT JOIN run newest ON newest.seq = (
    SELECT seq FROM run WHERE run.job = job.seq AND trigger = 'schedule' ORDER BY number DESC LIMIT 1)
LEFT JOIN ended ON ended.run = newest.seq
WHERE job.id = :job_id

-- name: audit_pending
-- What is still to be sent has a time at which it is, and what is over has none.
SELECT handle, target, event FROM delivery
WHERE (status = 'PENDING') <> (next_at IS NOT NULL) OR (status = 'PENDING') = (finished_at IS NOT NULL)
LIMIT :limit

-- name: audit_attention
-- Items whose topic does not name them, and messages about items that have a run.
SELECT topic FROM attention WHERE topic <> kind || ':' || name
UNION ALL
SELECT subject FROM delivery WHERE event IN ('attention', 'resolved') AND run_id IS NOT NULL
LIMIT :limit

-- name: audit_restored
SELECT max(at) FROM event WHERE kind = 'restored'

-- name: audit_notifying
-- The jobs with notification targets, and the time of their last change.
SELECT job.id, job.name, job.updated_at, version.spec
FROM notifying JOIN job ON job.id = notifying.job_id
JOIN job_version AS version ON version.job_id = job.id AND version.version = job.version
ORDER BY job.name

-- name: audit_told
-- Deliveries about the runs of a job other than their ends.
SELECT coalesce(run.chain_id, run.id), delivery.event, delivery.target, delivery.created_at
FROM run JOIN job ON job.seq = run.job JOIN delivery ON delivery.run_id = run.id
WHERE job.id = :job_id AND delivery.event IN ('late', 'missed', 'recovered')

-- name: audit_tellable
-- The runs of a job with targets, with the trigger of their chain, and whether they were retried.
SELECT run.number, run.status, coalesce(begun.id, run.id), coalesce(begun.trigger, run.trigger), run.scheduled_for,
    run.created_at, run.finished_at, run.decisions,
    EXISTS (SELECT 1 FROM run AS later WHERE later.retry_of = run.id AND later.trigger IN ('retry', 'answer'))
FROM run_now AS run LEFT JOIN run AS begun ON begun.id = run.chain_id
WHERE run.job_id = :job_id AND run.number > :after
ORDER BY run.number LIMIT :limit

-- name: audit_owned
SELECT run.id, job.name, run.number, CASE live.state WHEN 3 THEN 'RUNNING' ELSE 'DISPATCHED' END, process.lock, process.ending,
    process.worker_id, live.boot_id, live.pid, live.pid_start
FROM live JOIN run ON run.seq = live.run JOIN job ON job.seq = run.job LEFT JOIN process ON process.epoch = live.epoch
WHERE live.state >= 2 AND live.lane_id <> 0

-- name: audit_called
-- Direct calls that have a slot, with the lock of the process that carries them; of reservations the caller is the process.
SELECT call.id, coalesce(job.name, 'reserved slot'), 'RUNNING', process.lock, process.ending, process.worker_id, call.boot_id, call.pid, call.pid_start
FROM direct_hold CROSS JOIN call JOIN process ON process.epoch = direct_hold.epoch LEFT JOIN job ON job.id = call.job_id
WHERE call.id = direct_hold.execution_id
UNION ALL
SELECT direct_wait.id, coalesce(job.name, 'reserved slot'), 'DISPATCHED', process.lock, process.ending, process.worker_id, NULL, NULL, NULL
FROM direct_wait JOIN process ON process.epoch = direct_wait.epoch LEFT JOIN job ON job.id = direct_wait.job_id

-- name: audit_counters
-- Counted anew: what ended, and what is unfinished.
SELECT status, worker_id, CAST(sum(kept) AS bigint), CAST(sum(counted) AS bigint) FROM (
    SELECT status, worker_id, count AS kept, 0 AS counted FROM counter
    UNION ALL
    SELECT CASE ended.status WHEN 4 THEN 'COMPLETED' WHEN 5 THEN 'FAILED' WHEN 6 THEN 'SKIPPED' ELSE 'CANCELLED' END,
        coalesce((SELECT id FROM worker WHERE seq = ended.worker), ''), 0, ended.number
    FROM (SELECT status, worker, count(*) AS number FROM ended GROUP BY status, worker) AS ended
    UNION ALL
    SELECT CASE WHEN live.held THEN 'RUNNING' ELSE 'QUEUED' END, coalesce((SELECT id FROM worker WHERE seq = live.worker), ''), 0, live.number
    FROM (SELECT state >= 2 AS held, worker, count(*) AS number FROM live GROUP BY 1, 2) AS live) AS counters
GROUP BY status, worker_id HAVING sum(kept) <> sum(counted)

-- name: audit_questions
-- An open question has a live subject; an answered one had its effect.
SELECT * FROM (
    SELECT question.number, job.name, CASE
        WHEN question.state = 'open' AND question.subject = 'proposal' AND (job.provisional_at IS NULL OR job.retired_at IS NOT NULL)
            THEN 'is open, but its job does not wait for approval'
        WHEN question.state = 'open' AND question.subject = 'job' AND job.retired_at IS NOT NULL THEN 'is open, but its job was removed'
        WHEN question.state = 'open' AND question.call IS NOT NULL AND asking.run IS NULL THEN 'is open, but its run has ended'
        WHEN question.state = 'open' AND question.used_by IS NOT NULL AND getting.run IS NULL THEN 'is open, but the run that waits for it has ended'
        WHEN question.waits = 1 AND asking.run IS NULL THEN 'waits for the end of a run that has ended'
        WHEN question.state <> 'open' AND getting.waiting_for = 'answer' AND NOT EXISTS (
            SELECT 1 FROM question AS other WHERE other.used_by = question.used_by AND other.state = 'open')
            THEN 'is ' || question.state || ', but its run still waits for the answer'
        WHEN question.state = 'answered' AND question.subject = 'proposal' AND question.answer = 'reject' AND job.provisional_at IS NOT NULL
            AND job.provisional_at < question.ended_at THEN 'is answered with reject, but its job still waits for approval'
        WHEN question.state = 'answered' AND question.subject = 'proposal' AND question.answer = 'approve' AND job.provisional_at IS NOT NULL
            AND job.provisional_at < question.ended_at THEN 'is answered with approve, but its job still waits for approval'
        WHEN question.state = 'answered' AND question.call IS NOT NULL AND question.answer = 'allow always' AND given.number IS NULL
            THEN 'is answered with allow always, but there is no standing grant'
        WHEN given.number IS NOT NULL AND (question.call IS NULL OR coalesce(question.answer, '') <> 'allow always')
            THEN 'has a standing grant, but no person allowed the call for always'
    END AS what
    FROM question JOIN job ON job.id = question.job_id
    LEFT JOIN run AS asked ON asked.id = question.run_id LEFT JOIN live AS asking ON asking.run = asked.seq
    LEFT JOIN run AS used ON used.id = question.used_by LEFT JOIN live AS getting ON getting.run = used.seq
    LEFT JOIN standing_grant AS given ON given.question = question.number) AS looked
WHERE what IS NOT NULL LIMIT :limit

-- name: audit_chats
-- A notice has a text, and a question the digest that its message shows.
SELECT kind || ' ' || subject, what FROM (
    SELECT kind, subject, CASE
        WHEN state = 'PENDING' AND kind = 'notice' AND body = '' THEN 'has no text'
        WHEN kind = 'question' AND body = '' THEN 'does not name what it showed'
        END AS what
    FROM chat_message) AS looked
WHERE what IS NOT NULL LIMIT :limit

-- name: audit_tokens
-- A token is used after its creation, and neither after its expiry nor after its revocation.
SELECT name, what FROM (
    SELECT name, CASE
        WHEN last_used_at < created_at - :slack THEN 'was used before it was created'
        WHEN last_used_at > expires_at + :slack THEN 'was used after it expired'
        WHEN last_used_at > revoked_at + :slack THEN 'was used after it was revoked'
        END AS what
    FROM access_token) AS looked
WHERE what IS NOT NULL LIMIT :limit

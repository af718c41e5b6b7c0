-- name: runs_newest
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    CAST(CAST(execution.artifacts AS json) -> 'usage' AS text) AS usage,
    CAST(CAST(execution.artifacts AS json) -> 'denied_tools' AS text) AS denied_tools,
    CAST(execution.artifacts AS json) ->> 'session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.job_id = :job_id ORDER BY run.number DESC LIMIT :limit OFFSET :offset

-- name: runs_newest_of_jobs
-- LATERAL: an IN with a LIMIT inside would be asked for every run.
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    CAST(CAST(execution.artifacts AS json) -> 'usage' AS text) AS usage,
    CAST(CAST(execution.artifacts AS json) -> 'denied_tools' AS text) AS denied_tools,
    CAST(execution.artifacts AS json) ->> 'session_id' AS session_id
FROM json_array_elements_text(CAST(:job_ids AS json)) WITH ORDINALITY AS item (value, key)
CROSS JOIN LATERAL (SELECT * FROM run AS own WHERE own.job_id = item.value ORDER BY own.number DESC LIMIT :limit) AS run
JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
ORDER BY item.key, run.number DESC

-- name: runs_oldest_unfinished
-- Of each job the oldest run that is not final.
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    CAST(CAST(execution.artifacts AS json) -> 'usage' AS text) AS usage,
    CAST(CAST(execution.artifacts AS json) -> 'denied_tools' AS text) AS denied_tools,
    CAST(execution.artifacts AS json) ->> 'session_id' AS session_id
FROM json_array_elements_text(CAST(:job_ids AS json)) WITH ORDINALITY AS item (value, key)
CROSS JOIN LATERAL (
    SELECT * FROM run AS own WHERE own.job_id = item.value AND own.finished_at IS NULL ORDER BY own.id LIMIT 1) AS run
JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
ORDER BY item.key

-- name: runs_unfinished
-- Locked when a decision depends on them: the end of a run need not lock the job.
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    CAST(CAST(execution.artifacts AS json) -> 'usage' AS text) AS usage,
    CAST(CAST(execution.artifacts AS json) -> 'denied_tools' AS text) AS denied_tools,
    CAST(execution.artifacts AS json) ->> 'session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.job_id = :job_id AND run.finished_at IS NULL ORDER BY run.id
{{FOR NO KEY UPDATE OF run}}

-- name: runs_unfinished_some
-- What runs of a job, and the oldest of what is queued: a queue may be long.
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    CAST(CAST(execution.artifacts AS json) -> 'usage' AS text) AS usage,
    CAST(CAST(execution.artifacts AS json) -> 'denied_tools' AS text) AS denied_tools,
    CAST(execution.artifacts AS json) ->> 'session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.id IN (
    SELECT id FROM run WHERE status IN ('DISPATCHED', 'RUNNING') AND job_id = :job_id
    UNION
    SELECT id FROM (SELECT id FROM run WHERE job_id = :job_id AND finished_at IS NULL ORDER BY id LIMIT :limit) AS oldest)
ORDER BY run.id

-- name: runs_running
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    CAST(CAST(execution.artifacts AS json) -> 'usage' AS text) AS usage,
    CAST(CAST(execution.artifacts AS json) -> 'denied_tools' AS text) AS denied_tools,
    CAST(execution.artifacts AS json) ->> 'session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.status IN ('DISPATCHED', 'RUNNING') ORDER BY run.id

-- name: runs_of_all_unfinished
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    CAST(CAST(execution.artifacts AS json) -> 'usage' AS text) AS usage,
    CAST(CAST(execution.artifacts AS json) -> 'denied_tools' AS text) AS denied_tools,
    CAST(execution.artifacts AS json) ->> 'session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.finished_at IS NULL ORDER BY run.rank DESC, run.position, run.created_at, run.id LIMIT :limit

-- name: runs_history
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    CAST(CAST(execution.artifacts AS json) -> 'usage' AS text) AS usage,
    CAST(CAST(execution.artifacts AS json) -> 'denied_tools' AS text) AS denied_tools,
    CAST(execution.artifacts AS json) ->> 'session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json))))
    OR run.status || '/' || run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json)))))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:reasons AS json)))))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger = ANY (ARRAY(SELECT json_array_elements_text(CAST(:triggers AS json)))))
  AND (CAST(:job_ids AS TEXT) IS NULL OR run.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:job_ids AS json)))))
ORDER BY run.id DESC LIMIT :limit

-- name: runs_history_of_job
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    CAST(CAST(execution.artifacts AS json) -> 'usage' AS text) AS usage,
    CAST(CAST(execution.artifacts AS json) -> 'denied_tools' AS text) AS denied_tools,
    CAST(execution.artifacts AS json) ->> 'session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.job_id = :job_id AND run.number < :below AND run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json))))
    OR run.status || '/' || run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json)))))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:reasons AS json)))))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger = ANY (ARRAY(SELECT json_array_elements_text(CAST(:triggers AS json)))))
ORDER BY run.number DESC LIMIT :limit

-- name: run_unlike
SELECT run.number
FROM run LEFT JOIN execution ON execution.run_id = run.id
WHERE run.job_id = :job_id AND run.number < :below AND run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json)))))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:reasons AS json)))))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger = ANY (ARRAY(SELECT json_array_elements_text(CAST(:triggers AS json)))))
  AND (CASE run.status WHEN 'DISPATCHED' THEN 'RUNNING' ELSE run.status END <> :status
    OR run.reason IS DISTINCT FROM CAST(:reason AS TEXT)
    OR coalesce(json_array_length(CAST(execution.artifacts AS json) -> 'denied_tools'), 0) <> :denied)
ORDER BY run.number DESC LIMIT 1

-- name: runs_total
SELECT count(*) AS runs, CAST(coalesce(sum(coalesce(count, 1)), 0) AS bigint) AS times, min(number) AS oldest,
    count(usd) AS usd_told, CAST(coalesce(sum(usd), 0) AS bigint) AS usd,
    count(coalesce(tokens_in, tokens_out)) AS tokens_told,
    CAST(coalesce(sum(coalesce(tokens_in, 0) + coalesce(tokens_out, 0)), 0) AS bigint) AS tokens
FROM (
    SELECT run.number, run.count, CAST(told ->> 'usd_millionths' AS numeric) AS usd,
        CAST(told ->> 'tokens_in' AS numeric) AS tokens_in, CAST(told ->> 'tokens_out' AS numeric) AS tokens_out
    FROM run LEFT JOIN execution ON execution.run_id = run.id
    CROSS JOIN LATERAL (SELECT CAST(execution.artifacts AS json) -> 'usage' AS told) AS document
    WHERE run.job_id = :job_id AND run.number > :above AND run.number < :below AND run.id >= :since_id AND run.id < :until_id
    AND (CAST(:statuses AS TEXT) IS NULL OR run.status = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json)))))
    AND (CAST(:reasons AS TEXT) IS NULL OR run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:reasons AS json)))))
    AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger = ANY (ARRAY(SELECT json_array_elements_text(CAST(:triggers AS json)))))) AS used

-- name: runs_said
SELECT run.id, run.number, run.error, run.result_summary
FROM run
WHERE run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json))))
    OR run.status || '/' || run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json)))))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:reasons AS json)))))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger = ANY (ARRAY(SELECT json_array_elements_text(CAST(:triggers AS json)))))
  AND (CAST(:job_ids AS TEXT) IS NULL OR run.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:job_ids AS json)))))
ORDER BY run.id DESC LIMIT :limit

-- name: runs_said_of_job
SELECT run.id, run.number, run.error, run.result_summary
FROM run
WHERE run.job_id = :job_id AND run.number < :below AND run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json))))
    OR run.status || '/' || run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json)))))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:reasons AS json)))))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger = ANY (ARRAY(SELECT json_array_elements_text(CAST(:triggers AS json)))))
ORDER BY run.number DESC LIMIT :limit

-- name: runs_matching
SELECT id, status FROM run
WHERE job_id = :job_id AND finished_at IS NULL AND id < :below AND created_at <= :before
  AND status = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json))))
  AND (CAST(:waiting_for AS TEXT) IS NULL OR waiting_for = :waiting_for)
ORDER BY id DESC LIMIT :limit

-- name: runs_matching_count
SELECT count(*) FILTER (WHERE status = 'QUEUED'), count(*) FILTER (WHERE status <> 'QUEUED') FROM run
WHERE job_id = :job_id AND finished_at IS NULL AND created_at <= :before
  AND status = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json))))
  AND (CAST(:waiting_for AS TEXT) IS NULL OR waiting_for = :waiting_for)

-- name: runs_fired
-- Those of these instants that ran, by the key of their fire.
SELECT run.scheduled_for
FROM json_array_elements_text(CAST(:keys AS json)) AS item (value)
JOIN run ON run.job_id = :job_id AND run.slot_key = item.value
WHERE run.status <> 'SKIPPED'

-- name: run_last_backfill
-- Of the last chain that a backfill began: the run that is not final, which may be a retry.
SELECT run.id FROM run LEFT JOIN run root ON root.id = run.chain_id
WHERE run.job_id = :job_id AND run.finished_at IS NULL AND coalesce(root.trigger, run.trigger) = 'backfill'
ORDER BY coalesce(run.chain_id, run.id) DESC, run.id DESC LIMIT 1

-- name: runs_of_chain
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    CAST(CAST(execution.artifacts AS json) -> 'usage' AS text) AS usage,
    CAST(CAST(execution.artifacts AS json) -> 'denied_tools' AS text) AS denied_tools,
    CAST(execution.artifacts AS json) ->> 'session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.id IN (SELECT id FROM run WHERE id = :id UNION ALL SELECT id FROM run WHERE chain_id = :id) ORDER BY run.attempt

-- name: run_retried_as
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    CAST(CAST(execution.artifacts AS json) -> 'usage' AS text) AS usage,
    CAST(CAST(execution.artifacts AS json) -> 'denied_tools' AS text) AS denied_tools,
    CAST(execution.artifacts AS json) ->> 'session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.retry_of = :id AND run.trigger = 'retry'

-- name: runs_let_go
-- Those that another node is letting go at the same time are left to it.
WITH due AS MATERIALIZED (
    SELECT id FROM run WHERE status = 'QUEUED' AND not_before <= :now FOR NO KEY UPDATE SKIP LOCKED)
UPDATE run SET waiting_for = NULL, not_before = NULL WHERE id = ANY (ARRAY(SELECT id FROM due))

-- name: output_forget
DELETE FROM output WHERE run_id IN (SELECT json_array_elements_text(CAST(:ids AS json)))

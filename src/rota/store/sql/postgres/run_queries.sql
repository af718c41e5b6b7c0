-- name: runs_newest_of_jobs
-- LATERAL: an IN with a LIMIT inside would be asked for every run.
SELECT run.* FROM json_array_elements_text(CAST(:job_ids AS json)) WITH ORDINALITY AS item (value, key) JOIN job ON job.id = item.value
CROSS JOIN LATERAL (SELECT seq FROM run AS own WHERE own.job = job.seq ORDER BY own.number DESC LIMIT :limit) AS newest
JOIN run_now AS run ON run.seq = newest.seq
ORDER BY item.key, run.number DESC

-- name: runs_oldest_unfinished
-- Of each job the oldest run that is not final.
SELECT run.* FROM json_array_elements_text(CAST(:job_ids AS json)) WITH ORDINALITY AS item (value, key) JOIN job ON job.id = item.value
CROSS JOIN LATERAL (SELECT live.run FROM live WHERE live.job = job.seq ORDER BY live.run LIMIT 1) AS oldest
JOIN run_now AS run ON run.seq = oldest.run
ORDER BY item.key

-- name: runs_history
SELECT run.* FROM run_now AS run
WHERE run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json))))
    OR run.status || '/' || run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json)))))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:reasons AS json)))))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger = ANY (ARRAY(SELECT json_array_elements_text(CAST(:triggers AS json)))))
  AND (CAST(:job_ids AS TEXT) IS NULL OR run.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:job_ids AS json)))))
ORDER BY run.id DESC LIMIT :limit

-- name: runs_history_of_job
-- The number of the job comes first: by its identifier the planner reads and sorts all runs of the job.
SELECT run.* FROM run AS own JOIN run_now AS run ON run.seq = own.seq
WHERE own.job = (SELECT seq FROM job WHERE id = :job_id) AND own.number < :below AND run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json))))
    OR run.status || '/' || run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json)))))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:reasons AS json)))))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger = ANY (ARRAY(SELECT json_array_elements_text(CAST(:triggers AS json)))))
ORDER BY own.number DESC LIMIT :limit

-- name: run_unlike
SELECT run.number
FROM run AS own JOIN run_now AS run ON run.seq = own.seq
WHERE own.job = (SELECT seq FROM job WHERE id = :job_id) AND own.number < :below AND run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json)))))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:reasons AS json)))))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger = ANY (ARRAY(SELECT json_array_elements_text(CAST(:triggers AS json)))))
  AND (CASE run.status WHEN 'DISPATCHED' THEN 'RUNNING' ELSE run.status END <> :status
    OR run.reason IS DISTINCT FROM CAST(:reason AS TEXT)
    OR coalesce(json_array_length(CAST(run.artifacts AS json) -> 'denied_tools'), 0) <> :denied)
ORDER BY own.number DESC LIMIT 1

-- name: runs_total
SELECT count(*) AS runs, CAST(coalesce(sum(coalesce(count, 1)), 0) AS bigint) AS times, min(number) AS oldest,
    count(usd) AS usd_told, CAST(coalesce(sum(usd), 0) AS bigint) AS usd,
    count(coalesce(tokens_in, tokens_out)) AS tokens_told,
    CAST(coalesce(sum(coalesce(tokens_in, 0) + coalesce(tokens_out, 0)), 0) AS bigint) AS tokens
FROM (
    SELECT run.number, run.count, CAST(told ->> 'usd_millionths' AS numeric) AS usd,
        CAST(told ->> 'tokens_in' AS numeric) AS tokens_in, CAST(told ->> 'tokens_out' AS numeric) AS tokens_out
    FROM run AS own JOIN run_now AS run ON run.seq = own.seq
    CROSS JOIN LATERAL (SELECT CAST(run.artifacts AS json) -> 'usage' AS told) AS document
    WHERE own.job = (SELECT seq FROM job WHERE id = :job_id) AND own.number > :above AND own.number < :below AND run.id >= :since_id AND run.id < :until_id
    AND (CAST(:statuses AS TEXT) IS NULL OR run.status = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json)))))
    AND (CAST(:reasons AS TEXT) IS NULL OR run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:reasons AS json)))))
    AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger = ANY (ARRAY(SELECT json_array_elements_text(CAST(:triggers AS json)))))) AS used

-- name: runs_said
SELECT run.id, run.number, run.error, run.result_summary FROM run_now AS run
WHERE run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json))))
    OR run.status || '/' || run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json)))))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:reasons AS json)))))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger = ANY (ARRAY(SELECT json_array_elements_text(CAST(:triggers AS json)))))
  AND (CAST(:job_ids AS TEXT) IS NULL OR run.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:job_ids AS json)))))
ORDER BY run.id DESC LIMIT :limit

-- name: runs_said_of_job
SELECT run.id, run.number, run.error, run.result_summary FROM run AS own JOIN run_now AS run ON run.seq = own.seq
WHERE own.job = (SELECT seq FROM job WHERE id = :job_id) AND own.number < :below AND run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json))))
    OR run.status || '/' || run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json)))))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason = ANY (ARRAY(SELECT json_array_elements_text(CAST(:reasons AS json)))))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger = ANY (ARRAY(SELECT json_array_elements_text(CAST(:triggers AS json)))))
ORDER BY own.number DESC LIMIT :limit

-- name: runs_matching
SELECT run.id, CASE live.state WHEN 3 THEN 'RUNNING' WHEN 2 THEN 'DISPATCHED' ELSE 'QUEUED' END AS status
FROM live JOIN run ON run.seq = live.run
WHERE live.job = (SELECT seq FROM job WHERE id = :job_id) AND run.id < :below AND live.created_at <= :before
  AND CASE live.state WHEN 3 THEN 'RUNNING' WHEN 2 THEN 'DISPATCHED' ELSE 'QUEUED' END = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json))))
  AND (CAST(:waiting_for AS TEXT) IS NULL OR live.waiting_for = :waiting_for)
ORDER BY run.id DESC LIMIT :limit

-- name: runs_matching_count
SELECT count(*) FILTER (WHERE state < 2), count(*) FILTER (WHERE state >= 2) FROM live
WHERE job = (SELECT seq FROM job WHERE id = :job_id) AND created_at <= :before
  AND CASE live.state WHEN 3 THEN 'RUNNING' WHEN 2 THEN 'DISPATCHED' ELSE 'QUEUED' END = ANY (ARRAY(SELECT json_array_elements_text(CAST(:statuses AS json))))
  AND (CAST(:waiting_for AS TEXT) IS NULL OR waiting_for = :waiting_for)

-- name: runs_fired
-- Those of these instants that ran, by the key of their fire.
SELECT run.scheduled_for FROM run LEFT JOIN ended ON ended.run = run.seq
WHERE run.job = (SELECT seq FROM job WHERE id = :job_id) AND run.slot_key = ANY (ARRAY(SELECT json_array_elements_text(CAST(:keys AS json)))) AND ended.status IS DISTINCT FROM 6

-- name: output_forget
DELETE FROM output WHERE run_id IN (SELECT json_array_elements_text(CAST(:ids AS json)))

-- name: result_forget
DELETE FROM result WHERE run IN (SELECT seq FROM run WHERE id IN (SELECT json_array_elements_text(CAST(:ids AS json))))

-- name: result_prune
DELETE FROM result WHERE run IN (
    SELECT result.run FROM result JOIN run ON run.seq = result.run JOIN job ON job.seq = run.job
    WHERE result.at < :before AND job.id IN (SELECT json_array_elements_text(CAST(:jobs AS json))) ORDER BY result.at LIMIT :limit)

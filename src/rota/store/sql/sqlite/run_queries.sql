-- name: runs_newest_of_jobs
SELECT run.* FROM json_each(:job_ids) AS item
JOIN job AS named ON named.id = item.value
JOIN run_now AS run ON run.seq IN (SELECT seq FROM run AS own WHERE own.job = named.seq ORDER BY own.number DESC LIMIT :limit)
ORDER BY item.key, run.number DESC

-- name: runs_oldest_unfinished
-- Of each job the oldest run that is not final.
SELECT run.* FROM json_each(:job_ids) AS item
JOIN job AS named ON named.id = item.value
JOIN run_now AS run ON run.seq = (SELECT min(live.run) FROM live WHERE live.job = named.seq)
ORDER BY item.key

-- name: runs_history
SELECT run.* FROM run_now AS run
WHERE run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status IN (SELECT value FROM json_each(:statuses))
    OR run.status || '/' || run.reason IN (SELECT value FROM json_each(:statuses)))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason IN (SELECT value FROM json_each(:reasons)))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger IN (SELECT value FROM json_each(:triggers)))
  AND (CAST(:job_ids AS TEXT) IS NULL OR run.job_id IN (SELECT value FROM json_each(:job_ids)))
ORDER BY run.id DESC LIMIT :limit

-- name: runs_history_of_job
SELECT run.* FROM run_now AS run
WHERE run.job_id = :job_id AND run.number < :below AND run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status IN (SELECT value FROM json_each(:statuses))
    OR run.status || '/' || run.reason IN (SELECT value FROM json_each(:statuses)))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason IN (SELECT value FROM json_each(:reasons)))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger IN (SELECT value FROM json_each(:triggers)))
ORDER BY run.number DESC LIMIT :limit

-- name: run_unlike
SELECT run.number
FROM run_now AS run
WHERE run.job_id = :job_id AND run.number < :below AND run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status IN (SELECT value FROM json_each(:statuses)))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason IN (SELECT value FROM json_each(:reasons)))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger IN (SELECT value FROM json_each(:triggers)))
  AND (CASE run.status WHEN 'DISPATCHED' THEN 'RUNNING' ELSE run.status END <> :status
    OR run.reason IS DISTINCT FROM CAST(:reason AS TEXT)
    OR coalesce(json_array_length(run.artifacts, '$.denied_tools'), 0) <> :denied)
ORDER BY run.number DESC LIMIT 1

-- name: runs_total
SELECT count(*) AS runs, coalesce(sum(coalesce(count, 1)), 0) AS times, min(number) AS oldest,
    count(usd) AS usd_told, coalesce(sum(usd), 0) AS usd,
    count(coalesce(tokens_in, tokens_out)) AS tokens_told,
    coalesce(sum(coalesce(tokens_in, 0) + coalesce(tokens_out, 0)), 0) AS tokens
FROM (
    SELECT run.number, run.count, run.artifacts ->> '$.usage.usd_millionths' AS usd,
        run.artifacts ->> '$.usage.tokens_in' AS tokens_in, run.artifacts ->> '$.usage.tokens_out' AS tokens_out
    FROM run_now AS run
    WHERE run.job_id = :job_id AND run.number > :above AND run.number < :below AND run.id >= :since_id AND run.id < :until_id
    AND (CAST(:statuses AS TEXT) IS NULL OR run.status IN (SELECT value FROM json_each(:statuses)))
    AND (CAST(:reasons AS TEXT) IS NULL OR run.reason IN (SELECT value FROM json_each(:reasons)))
    AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger IN (SELECT value FROM json_each(:triggers)))) AS used

-- name: runs_said
SELECT run.id, run.number, run.error, run.result_summary FROM run_now AS run
WHERE run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status IN (SELECT value FROM json_each(:statuses))
    OR run.status || '/' || run.reason IN (SELECT value FROM json_each(:statuses)))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason IN (SELECT value FROM json_each(:reasons)))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger IN (SELECT value FROM json_each(:triggers)))
  AND (CAST(:job_ids AS TEXT) IS NULL OR run.job_id IN (SELECT value FROM json_each(:job_ids)))
ORDER BY run.id DESC LIMIT :limit

-- name: runs_said_of_job
SELECT run.id, run.number, run.error, run.result_summary FROM run_now AS run
WHERE run.job_id = :job_id AND run.number < :below AND run.id >= :since_id AND run.id < :until_id
  AND (CAST(:statuses AS TEXT) IS NULL OR run.status IN (SELECT value FROM json_each(:statuses))
    OR run.status || '/' || run.reason IN (SELECT value FROM json_each(:statuses)))
  AND (CAST(:reasons AS TEXT) IS NULL OR run.reason IN (SELECT value FROM json_each(:reasons)))
  AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger IN (SELECT value FROM json_each(:triggers)))
ORDER BY run.number DESC LIMIT :limit

-- name: runs_matching
SELECT run.id, CASE live.state WHEN 3 THEN 'RUNNING' WHEN 2 THEN 'DISPATCHED' ELSE 'QUEUED' END AS status
FROM live JOIN run ON run.seq = live.run
WHERE live.job = (SELECT seq FROM job WHERE id = :job_id) AND run.id < :below AND live.created_at <= :before
  AND CASE live.state WHEN 3 THEN 'RUNNING' WHEN 2 THEN 'DISPATCHED' ELSE 'QUEUED' END IN (SELECT value FROM json_each(:statuses))
  AND (CAST(:waiting_for AS TEXT) IS NULL OR live.waiting_for = :waiting_for)
ORDER BY run.id DESC LIMIT :limit

-- name: runs_matching_count
SELECT count(*) FILTER (WHERE state < 2), count(*) FILTER (WHERE state >= 2) FROM live
WHERE job = (SELECT seq FROM job WHERE id = :job_id) AND created_at <= :before
  AND CASE state WHEN 3 THEN 'RUNNING' WHEN 2 THEN 'DISPATCHED' ELSE 'QUEUED' END IN (SELECT value FROM json_each(:statuses))
  AND (CAST(:waiting_for AS TEXT) IS NULL OR waiting_for = :waiting_for)

-- name: runs_fired
-- Those of these instants that ran, by the key of their fire.
SELECT run.scheduled_for FROM json_each(:keys) AS item
CROSS JOIN run INDEXED BY run_fire ON run.job = (SELECT seq FROM job WHERE id = :job_id) AND run.slot_key = item.value
LEFT JOIN ended ON ended.run = run.seq WHERE ended.status IS NOT 6

-- name: output_forget
DELETE FROM output WHERE run_id IN (SELECT value FROM json_each(:ids))

-- name: result_forget
DELETE FROM result WHERE run IN (SELECT seq FROM run WHERE id IN (SELECT value FROM json_each(:ids)))

-- name: result_prune
DELETE FROM result WHERE run IN (
    SELECT result.run FROM result JOIN run ON run.seq = result.run JOIN job ON job.seq = run.job
    WHERE result.at < :before AND job.id IN (SELECT value FROM json_each(:jobs)) ORDER BY result.at LIMIT :limit)

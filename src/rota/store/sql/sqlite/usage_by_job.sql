-- The plus keeps SQLite from walking the index of jobs and looking up each row: sorting is half of that.
SELECT (SELECT job.name FROM job WHERE job.id = job_id) AS name, count(*) AS runs, CAST(total(took) AS INTEGER) AS took,
    count(requests) AS requests_told, CAST(total(requests) AS INTEGER) AS requests,
    count(tokens_in) AS tokens_in_told, CAST(total(tokens_in) AS INTEGER) AS tokens_in,
    count(tokens_out) AS tokens_out_told, CAST(total(tokens_out) AS INTEGER) AS tokens_out,
    count(usd) AS usd_told, CAST(total(usd) AS INTEGER) AS usd
FROM (
    SELECT job_id, max(coalesce(finished_at, :now) - started_at, 0) AS took,
        artifacts ->> '$.usage.requests' AS requests, artifacts ->> '$.usage.tokens_in' AS tokens_in,
        artifacts ->> '$.usage.tokens_out' AS tokens_out, artifacts ->> '$.usage.usd_millionths' AS usd
    FROM execution
    WHERE started_at >= :since AND (:jobs IS NULL OR job_id IN (SELECT value FROM json_each(:jobs))))
GROUP BY +job_id

-- First by definition: there are few of them, and each is read once to see whose work it is.
SELECT spec ->> '$.work.agent.agent' AS name, sum(runs) AS runs, sum(took) AS took,
    sum(requests_told) AS requests_told, sum(requests) AS requests,
    sum(tokens_in_told) AS tokens_in_told, sum(tokens_in) AS tokens_in,
    sum(tokens_out_told) AS tokens_out_told, sum(tokens_out) AS tokens_out,
    sum(usd_told) AS usd_told, sum(usd) AS usd
FROM (
    SELECT execution.job_id AS job_id, coalesce(run.version, execution.version) AS version, count(*) AS runs,
        CAST(total(max(coalesce(execution.finished_at, :now) - execution.started_at, 0)) AS INTEGER) AS took,
        count(execution.artifacts ->> '$.usage.requests') AS requests_told,
        CAST(total(execution.artifacts ->> '$.usage.requests') AS INTEGER) AS requests,
        count(execution.artifacts ->> '$.usage.tokens_in') AS tokens_in_told,
        CAST(total(execution.artifacts ->> '$.usage.tokens_in') AS INTEGER) AS tokens_in,
        count(execution.artifacts ->> '$.usage.tokens_out') AS tokens_out_told,
        CAST(total(execution.artifacts ->> '$.usage.tokens_out') AS INTEGER) AS tokens_out,
        count(execution.artifacts ->> '$.usage.usd_millionths') AS usd_told,
        CAST(total(execution.artifacts ->> '$.usage.usd_millionths') AS INTEGER) AS usd
    FROM execution LEFT JOIN run ON run.id = execution.run_id
    WHERE execution.started_at >= :since
      AND (:jobs IS NULL OR execution.job_id IN (SELECT value FROM json_each(:jobs)))
    GROUP BY +execution.job_id, coalesce(run.version, execution.version)) AS used
LEFT JOIN job_version ON job_version.job_id = used.job_id AND job_version.version = used.version
GROUP BY name

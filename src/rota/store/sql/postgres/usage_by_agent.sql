-- First by definition: there are few of them, and each is read once to see whose work it is.
SELECT CAST(spec AS json) #>> '{work,agent,agent}' AS name, CAST(sum(runs) AS bigint) AS runs, CAST(sum(took) AS bigint) AS took,
    CAST(sum(requests_told) AS bigint) AS requests_told, CAST(sum(requests) AS bigint) AS requests,
    CAST(sum(tokens_in_told) AS bigint) AS tokens_in_told, CAST(sum(tokens_in) AS bigint) AS tokens_in,
    CAST(sum(tokens_out_told) AS bigint) AS tokens_out_told, CAST(sum(tokens_out) AS bigint) AS tokens_out,
    CAST(sum(usd_told) AS bigint) AS usd_told, CAST(sum(usd) AS bigint) AS usd
FROM (
    SELECT execution.job_id AS job_id, coalesce(run.version, execution.version) AS version, count(*) AS runs,
        sum(greatest(coalesce(execution.finished_at, :now) - execution.started_at, 0)) AS took,
        count(told ->> 'requests') AS requests_told, coalesce(sum(CAST(told ->> 'requests' AS numeric)), 0) AS requests,
        count(told ->> 'tokens_in') AS tokens_in_told, coalesce(sum(CAST(told ->> 'tokens_in' AS numeric)), 0) AS tokens_in,
        count(told ->> 'tokens_out') AS tokens_out_told, coalesce(sum(CAST(told ->> 'tokens_out' AS numeric)), 0) AS tokens_out,
        count(told ->> 'usd_millionths') AS usd_told, coalesce(sum(CAST(told ->> 'usd_millionths' AS numeric)), 0) AS usd
    FROM execution LEFT JOIN run ON run.id = execution.run_id
    CROSS JOIN LATERAL (SELECT CAST(execution.artifacts AS json) -> 'usage' AS told) AS document
    WHERE execution.started_at >= :since
      AND (CAST(:jobs AS text) IS NULL OR execution.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json)))))
    GROUP BY execution.job_id, coalesce(run.version, execution.version)) AS used
LEFT JOIN job_version ON job_version.job_id = used.job_id AND job_version.version = used.version
GROUP BY 1

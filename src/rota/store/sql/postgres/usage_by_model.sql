SELECT model AS name, count(*) AS runs, CAST(sum(took) AS bigint) AS took,
    count(requests) AS requests_told, CAST(coalesce(sum(requests), 0) AS bigint) AS requests,
    count(tokens_in) AS tokens_in_told, CAST(coalesce(sum(tokens_in), 0) AS bigint) AS tokens_in,
    count(tokens_out) AS tokens_out_told, CAST(coalesce(sum(tokens_out), 0) AS bigint) AS tokens_out,
    count(usd) AS usd_told, CAST(coalesce(sum(usd), 0) AS bigint) AS usd
FROM (
    SELECT told ->> 'model' AS model, greatest(coalesce(finished_at, :now) - started_at, 0) AS took,
        CAST(told ->> 'requests' AS numeric) AS requests, CAST(told ->> 'tokens_in' AS numeric) AS tokens_in,
        CAST(told ->> 'tokens_out' AS numeric) AS tokens_out, CAST(told ->> 'usd_millionths' AS numeric) AS usd
    FROM execution CROSS JOIN LATERAL (SELECT CAST(execution.artifacts AS json) -> 'usage' AS told) AS document
    WHERE started_at >= :since
      AND (CAST(:jobs AS text) IS NULL OR job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json)))))) AS used
GROUP BY model

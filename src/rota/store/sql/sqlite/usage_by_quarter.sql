SELECT name, count(*) AS runs, CAST(total(took) AS INTEGER) AS took,
    count(requests) AS requests_told, CAST(total(requests) AS INTEGER) AS requests,
    count(tokens_in) AS tokens_in_told, CAST(total(tokens_in) AS INTEGER) AS tokens_in,
    count(tokens_out) AS tokens_out_told, CAST(total(tokens_out) AS INTEGER) AS tokens_out,
    count(usd) AS usd_told, CAST(total(usd) AS INTEGER) AS usd
FROM (
    SELECT started_at / :quarter AS name, max(coalesce(finished_at, :now) - started_at, 0) AS took,
        artifacts ->> '$.usage.requests' AS requests, artifacts ->> '$.usage.tokens_in' AS tokens_in,
        artifacts ->> '$.usage.tokens_out' AS tokens_out, artifacts ->> '$.usage.usd_millionths' AS usd
    FROM execution
    WHERE started_at >= :since AND (:jobs IS NULL OR job_id IN (SELECT value FROM json_each(:jobs))))
GROUP BY name ORDER BY name

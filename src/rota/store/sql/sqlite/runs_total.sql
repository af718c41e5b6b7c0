SELECT count(*) AS runs, coalesce(sum(coalesce(count, 1)), 0) AS times, min(number) AS oldest,
    count(usd) AS usd_told, coalesce(sum(usd), 0) AS usd,
    count(coalesce(tokens_in, tokens_out)) AS tokens_told,
    coalesce(sum(coalesce(tokens_in, 0) + coalesce(tokens_out, 0)), 0) AS tokens
FROM (
    SELECT run.number, run.count, execution.artifacts ->> '$.usage.usd_millionths' AS usd,
        execution.artifacts ->> '$.usage.tokens_in' AS tokens_in, execution.artifacts ->> '$.usage.tokens_out' AS tokens_out
    FROM run LEFT JOIN execution ON execution.run_id = run.id
    WHERE run.job_id = :job_id AND run.number > :above AND run.number < :below AND run.id >= :since_id AND run.id < :until_id
    AND (CAST(:statuses AS TEXT) IS NULL OR run.status IN (SELECT value FROM json_each(:statuses)))
    AND (CAST(:reasons AS TEXT) IS NULL OR run.reason IN (SELECT value FROM json_each(:reasons)))
    AND (CAST(:triggers AS TEXT) IS NULL OR run.trigger IN (SELECT value FROM json_each(:triggers)))) AS used

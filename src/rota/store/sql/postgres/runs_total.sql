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

-- name: session_spent
SELECT CAST(sum(CAST(CAST(ended.artifacts AS json) -> 'usage' ->> 'usd_millionths' AS bigint)) AS bigint),
    CAST(sum(CAST(CAST(ended.artifacts AS json) -> 'usage' ->> 'tokens_in' AS bigint)) AS bigint),
    CAST(sum(CAST(CAST(ended.artifacts AS json) -> 'usage' ->> 'tokens_out' AS bigint)) AS bigint),
    CAST(sum(CAST(CAST(ended.artifacts AS json) -> 'usage' ->> 'tokens_cached' AS bigint)) AS bigint)
FROM ended WHERE ended.job = (SELECT seq FROM job WHERE id = :job_id) AND CAST(ended.artifacts AS json) ->> 'session_id' = :session

-- name: session_spent
SELECT sum(ended.artifacts ->> '$.usage.usd_millionths'), sum(ended.artifacts ->> '$.usage.tokens_in'),
    sum(ended.artifacts ->> '$.usage.tokens_out'), sum(ended.artifacts ->> '$.usage.tokens_cached')
FROM ended WHERE ended.job = (SELECT seq FROM job WHERE id = :job_id) AND ended.artifacts ->> '$.session_id' = :session

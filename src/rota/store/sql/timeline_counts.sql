-- The index run_pruning has all that is asked for; the newest ones count, so that it never reads without end.
SELECT finished_at / :width, count(*), min(finished_at), max(finished_at)
FROM (
    SELECT finished_at FROM run
    WHERE job_id = :job_id AND status = :status AND finished_at IS NOT NULL AND finished_at >= :since
    ORDER BY finished_at DESC LIMIT :limit
) AS ended
GROUP BY 1 ORDER BY 1

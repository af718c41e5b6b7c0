SELECT status, worker_id, CAST(sum(kept) AS bigint), CAST(sum(counted) AS bigint) FROM (
    SELECT status, worker_id, count AS kept, 0 AS counted FROM counter
    UNION ALL
    SELECT CASE status WHEN 'DISPATCHED' THEN 'RUNNING' ELSE status END, coalesce(worker_id, ''), 0, count(*) FROM run GROUP BY 1, 2) AS found
GROUP BY status, worker_id HAVING sum(kept) <> sum(counted)

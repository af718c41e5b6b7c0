-- Counted anew by one look at all runs for each worker: grouping them would sort them all in memory.
SELECT status, worker_id, sum(kept), sum(counted) FROM (
    SELECT status, worker_id, count AS kept, 0 AS counted FROM counter
    UNION ALL
    SELECT found.key, whose.id, 0, found.value
    FROM (SELECT '' AS id UNION ALL SELECT id FROM worker) AS whose, json_each((
        SELECT json_object(
            'QUEUED', count(*) FILTER (WHERE status = 'QUEUED'),
            'RUNNING', count(*) FILTER (WHERE status IN ('DISPATCHED', 'RUNNING')),
            'COMPLETED', count(*) FILTER (WHERE status = 'COMPLETED'),
            'FAILED', count(*) FILTER (WHERE status = 'FAILED'),
            'SKIPPED', count(*) FILTER (WHERE status = 'SKIPPED'),
            'CANCELLED', count(*) FILTER (WHERE status = 'CANCELLED'))
        FROM run WHERE coalesce(worker_id, '') = whose.id)) AS found)
GROUP BY status, worker_id HAVING sum(kept) <> sum(counted)

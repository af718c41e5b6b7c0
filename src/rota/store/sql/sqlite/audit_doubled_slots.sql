SELECT slot, count(*) FROM run WHERE status IN ('DISPATCHED', 'RUNNING')
GROUP BY worker_id, slot HAVING count(*) > 1 LIMIT :limit

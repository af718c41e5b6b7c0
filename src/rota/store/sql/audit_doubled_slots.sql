-- INV-003 over runs and direct calls.
SELECT slot, count(*) FROM (
    SELECT worker_id, slot FROM run WHERE status IN ('DISPATCHED', 'RUNNING') AND slot IS NOT NULL
    UNION ALL SELECT worker_id, slot FROM execution WHERE run_id IS NULL AND finished_at IS NULL
    UNION ALL SELECT worker_id, slot FROM direct_wait WHERE slot IS NOT NULL) AS holder
GROUP BY worker_id, slot HAVING count(*) > 1 LIMIT :limit

SELECT status, waiting_for, count(*) FROM run WHERE status IN ('QUEUED', 'DISPATCHED', 'RUNNING') GROUP BY status, waiting_for

-- Ended or not: a detached process has left runs for the next one.
SELECT DISTINCT epoch FROM run WHERE status IN ('DISPATCHED', 'RUNNING')

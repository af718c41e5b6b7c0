-- Ended or not: a detached process has left runs and direct calls for the next one.
SELECT DISTINCT epoch FROM run WHERE status IN ('DISPATCHED', 'RUNNING') AND epoch IS NOT NULL
UNION SELECT epoch FROM direct_hold
UNION SELECT epoch FROM direct_wait WHERE slot IS NOT NULL

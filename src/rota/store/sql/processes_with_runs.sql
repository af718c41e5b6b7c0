-- Ended or not: a detached process has left runs and direct calls for the next one of its worker.
SELECT DISTINCT epoch, worker_id FROM run WHERE status IN ('DISPATCHED', 'RUNNING') AND epoch IS NOT NULL
UNION SELECT direct_hold.epoch, process.worker_id FROM direct_hold JOIN process ON process.epoch = direct_hold.epoch
UNION SELECT epoch, worker_id FROM direct_wait WHERE slot IS NOT NULL

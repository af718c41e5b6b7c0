-- The first runs of a lane that may be claimed, in the order of INV-004 (R-03).
SELECT r.id, r.job_id, r.version, r.number, job.name, r.trigger, r.scheduled_for, r.created_at, r.attempt, r.params, r.expires_at, r.forced,
    job.state
FROM run r
JOIN job ON job.id = r.job_id
WHERE r.lane_id = :lane_id AND r.status = 'QUEUED' AND r.waiting_for IS NULL AND r.lane_id > 0
ORDER BY r.rank DESC, r.position, r.created_at, r.id LIMIT :free

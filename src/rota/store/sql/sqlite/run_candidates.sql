-- The heads of the lanes, in the order of INV-004 (R-03).
SELECT r.id, r.job_id, r.version, r.number, job.name, r.trigger, r.scheduled_for, r.created_at, r.attempt, r.params, r.expires_at, r.forced, job.state
FROM lane
JOIN run r ON r.id IN (
    SELECT q.id FROM run q WHERE q.lane_id = lane.id AND q.status = 'QUEUED' AND q.waiting_for IS NULL
    ORDER BY q.priority DESC, q.position, q.created_at, q.id LIMIT :free)
JOIN job ON job.id = r.job_id
ORDER BY r.priority DESC, r.position, r.created_at, r.id LIMIT :free

-- Runs that are to be claimed, in the order in which they are named.
SELECT r.id, r.job_id, r.version, r.number, job.name, r.trigger, r.scheduled_for, r.created_at, r.attempt, r.params, r.expires_at, r.forced,
    job.state
FROM json_each(:ids) AS item CROSS JOIN run r ON r.id = item.value JOIN job ON job.id = r.job_id
WHERE r.status = 'QUEUED' AND r.waiting_for IS NULL ORDER BY item.key

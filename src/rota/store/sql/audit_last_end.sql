-- When the last run of a job ended, until when it backs off, and its newest scheduled row: what its next instant depended on.
SELECT (SELECT max(finished_at) FROM run WHERE job_id = job.id), job.backing_off_until, newest.scheduled_for, newest.reason
FROM job LEFT JOIN run newest ON newest.id = (
    SELECT id FROM run WHERE job_id = job.id AND trigger = 'schedule' ORDER BY number DESC LIMIT 1)
WHERE job.id = :job_id

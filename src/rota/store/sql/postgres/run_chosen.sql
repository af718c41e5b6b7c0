-- Runs that are to be claimed, in the order in which they are named; held until the commit. Who was taken or changed meanwhile is left out.
-- CASE hides the condition from the planner: it would read all that is queued, believing that to be next to nothing, and join that.
SELECT r.id, r.job_id, r.version, r.number, job.name, r.trigger, r.scheduled_for, r.created_at, r.attempt, r.params, r.expires_at, r.forced,
    job.state
FROM json_array_elements_text(CAST(:ids AS json)) WITH ORDINALITY AS item (value, key)
JOIN run r ON r.id = item.value JOIN job ON job.id = r.job_id
WHERE CASE WHEN r.status = 'QUEUED' AND r.waiting_for IS NULL THEN true ELSE false END ORDER BY item.key
-- when writing: FOR NO KEY UPDATE OF r

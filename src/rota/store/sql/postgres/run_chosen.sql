-- Runs that are to be claimed, in the order in which they are named; held until the commit. Who was taken or changed meanwhile is left out.
-- By identifier whatever the statistics say (= ANY instead of a join), and CASE hides the condition: the planner would read all that is
-- queued, or all runs of the few jobs, believing that to be next to nothing.
SELECT r.id, r.job_id, r.version, r.number, job.name, r.trigger, r.scheduled_for, r.created_at, r.attempt, r.params, r.expires_at, r.forced,
    job.state
FROM run r JOIN job ON job.id = r.job_id
WHERE r.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))
  AND CASE WHEN r.status = 'QUEUED' AND r.waiting_for IS NULL THEN true ELSE false END
ORDER BY array_position(ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))), CAST(r.id AS text))
-- when writing: FOR NO KEY UPDATE OF r

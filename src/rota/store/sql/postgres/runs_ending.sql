-- By identifier whatever the statistics say (= ANY instead of a join), and CASE hides the condition: the planner would read a short table, or
-- all that is queued, believing that to be next to nothing.
SELECT run.id, run.status, run.cancel_reason FROM run WHERE run.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))
    AND CASE WHEN run.finished_at IS NULL THEN true ELSE false END
-- when writing: ORDER BY run.id FOR NO KEY UPDATE OF run

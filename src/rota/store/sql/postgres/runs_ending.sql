-- CASE hides the condition from the planner: it would read all that is queued, believing that to be next to nothing, and join that.
SELECT run.id, run.status, run.cancel_reason FROM json_array_elements_text(CAST(:ids AS json)) AS item (value)
JOIN run ON run.id = item.value WHERE CASE WHEN run.finished_at IS NULL THEN true ELSE false END
-- when writing: ORDER BY run.id FOR NO KEY UPDATE OF run

-- CASE hides the condition from the planner: it would read all that is queued, believing that to be next to nothing, and join that.
UPDATE run SET waiting_for = NULL, expires_at = item.expires_at
FROM (SELECT value ->> 0 AS id, CAST(value ->> 1 AS bigint) AS expires_at FROM json_array_elements(CAST(:members AS json))) AS item
WHERE run.id = item.id AND CASE WHEN run.status = 'QUEUED' AND run.waiting_for = 'predecessor' THEN true ELSE false END

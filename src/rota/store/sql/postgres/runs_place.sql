-- CASE hides the condition from the planner: it would read all that is queued, believing that to be next to nothing, and join that.
UPDATE run SET position = item.position
FROM (SELECT value ->> 0 AS id, CAST(value ->> 1 AS bigint) AS position FROM json_array_elements(CAST(:runs AS json))) AS item
WHERE run.id = item.id AND CASE WHEN run.status = 'QUEUED' THEN true ELSE false END

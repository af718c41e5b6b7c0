-- name: group_members
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    CAST(CAST(execution.artifacts AS json) -> 'usage' AS text) AS usage,
    CAST(CAST(execution.artifacts AS json) -> 'denied_tools' AS text) AS denied_tools,
    CAST(execution.artifacts AS json) ->> 'session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.group_id = :group_id ORDER BY run.place, run.attempt

-- name: group_let_go
-- CASE hides the condition from the planner: it would read all that is queued, believing that to be next to nothing, and join that.
UPDATE run SET waiting_for = NULL, expires_at = item.expires_at
FROM (SELECT value ->> 0 AS id, CAST(value ->> 1 AS bigint) AS expires_at FROM json_array_elements(CAST(:members AS json))) AS item
WHERE run.id = item.id AND CASE WHEN run.status = 'QUEUED' AND run.waiting_for = 'predecessor' THEN true ELSE false END

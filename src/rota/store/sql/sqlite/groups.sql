-- name: group_members
SELECT run.*, job.name AS job, execution.exit_code AS exit_code,
    execution.artifacts -> '$.usage' AS usage, execution.artifacts -> '$.denied_tools' AS denied_tools,
    execution.artifacts ->> '$.session_id' AS session_id
FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
WHERE run.group_id = :group_id ORDER BY run.place, run.attempt

-- name: group_let_go
UPDATE run SET waiting_for = NULL, expires_at = item.expires_at
FROM (SELECT value ->> 0 AS id, value ->> 1 AS expires_at FROM json_each(:members)) AS item
WHERE run.id = item.id AND run.status = 'QUEUED' AND run.waiting_for = 'predecessor'

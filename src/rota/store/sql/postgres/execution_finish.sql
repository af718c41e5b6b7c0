-- = ANY: by its run, not by a look at all that are unfinished, which are those of every machine.
UPDATE execution SET finished_at = item.finished_at, status = item.status, exit_code = item.exit_code, error = item.error,
    artifacts = item.artifacts
FROM (SELECT value ->> 0 AS run_id, CAST(value ->> 1 AS bigint) AS finished_at, value ->> 2 AS status, CAST(value ->> 3 AS bigint) AS exit_code,
    value ->> 4 AS error, value ->> 5 AS artifacts FROM jsonb_array_elements(CAST(:executions AS jsonb))) AS item
WHERE execution.run_id = ANY (ARRAY(SELECT value ->> 0 FROM jsonb_array_elements(CAST(:executions AS jsonb))))
    AND execution.run_id = item.run_id AND execution.finished_at IS NULL

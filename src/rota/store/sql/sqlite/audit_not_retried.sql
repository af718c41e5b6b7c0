-- DEC-007: a failure is retried in the transaction of its end, or is the last of its chain. What was pruned is not looked at.
-- An outage uses up no attempt, and is retried :outages times.
SELECT job.name, run.number, run.attempt, json_extract(job_version.spec, '$.retry.max_attempts') AS most
FROM run JOIN job ON job.id = run.job_id
JOIN job_version ON job_version.job_id = run.job_id AND job_version.version = run.version
WHERE run.status = 'FAILED' AND run.reason NOT IN ('unkillable', 'members_failed')
  AND CASE WHEN run.reason = 'outage' THEN coalesce(json_extract(run.decisions, '$.retry.outages'), 0) < :outages ELSE run.attempt - coalesce(json_extract(run.decisions, '$.retry.outages'), 0) < most END
  AND run.cancel_requested_at IS NULL AND json_extract(run.decisions, '$.one_attempt') IS NULL AND coalesce(run.scheduled_for, run.created_at) >= job.ledger_from
  AND (:jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs)))
  AND NOT EXISTS (SELECT 1 FROM run next WHERE next.retry_of = run.id AND next.trigger = 'retry')
LIMIT :limit

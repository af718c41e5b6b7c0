-- DEC-007: a failure is retried in the transaction of its end, or is the last of its chain. What was pruned is not looked at.
-- An outage uses up no attempt, and is retried :outages times.
SELECT job.name, run.number, run.attempt, allowed.most
FROM run JOIN job ON job.id = run.job_id
JOIN job_version ON job_version.job_id = run.job_id AND job_version.version = run.version
CROSS JOIN LATERAL (SELECT CAST(CAST(job_version.spec AS json) #>> '{retry,max_attempts}' AS bigint) AS most) AS allowed
WHERE run.status = 'FAILED' AND run.reason NOT IN ('unkillable', 'members_failed')
  AND CASE WHEN run.reason = 'outage' THEN coalesce(CAST(CAST(run.decisions AS json) #>> '{retry,outages}' AS bigint), 0) < :outages ELSE run.attempt - coalesce(CAST(CAST(run.decisions AS json) #>> '{retry,outages}' AS bigint), 0) < allowed.most END
  AND run.cancel_requested_at IS NULL AND CAST(run.decisions AS json) ->> 'one_attempt' IS NULL AND coalesce(run.scheduled_for, run.created_at) >= job.ledger_from
  AND (CAST(:jobs AS text) IS NULL OR run.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json)))))
  AND NOT EXISTS (SELECT 1 FROM run next WHERE next.retry_of = run.id AND next.trigger = 'retry')
LIMIT :limit

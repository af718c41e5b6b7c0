-- Ends of runs that a target was to be told of and that have no delivery, since job and targets are what they are now.
SELECT ended.job, ended.number, ended.target, ended.event
FROM (
    SELECT told.job, run.id, run.job_id, run.number, run.finished_at, told.since,
           told.target ->> '$.name' AS target, told.target -> '$.on' AS events, told.target ->> '$.remind' AS remind,
           CASE run.status
               WHEN 'COMPLETED' THEN 'completed'
               WHEN 'CANCELLED' THEN 'cancelled'
               WHEN 'FAILED' THEN 'failed'
               ELSE iif(run.reason = 'missed' AND instr(told.target ->> '$.on', '"missed"'), 'missed', 'skipped')
           END AS event
    FROM (
        SELECT job.id AS job_id, job.name AS job, max(job.updated_at, :since) AS since, own.value AS target
        FROM notifying JOIN job ON job.id = notifying.job_id
        JOIN job_version AS version ON version.job_id = job.id AND version.version = job.version
        JOIN json_each(version.spec, '$.notify_own') AS own
        UNION ALL
        SELECT job.id, job.name, max(job.updated_at, :since, :targets_at), declared.value
        FROM notifying JOIN job ON job.id = notifying.job_id
        JOIN job_version AS version ON version.job_id = job.id AND version.version = job.version
        JOIN json_each(version.spec, '$.notify') AS named
        JOIN json_each(:targets) AS declared ON declared.key = named.value
    ) AS told
    JOIN run ON run.job_id = told.job_id AND run.status IN ('COMPLETED', 'FAILED', 'SKIPPED', 'CANCELLED')
        AND run.finished_at > told.since
    WHERE :jobs IS NULL OR told.job_id IN (SELECT value FROM json_each(:jobs))
) AS ended
WHERE ended.event IN (SELECT value FROM json_each(ended.events))
  AND NOT EXISTS (SELECT 1 FROM run AS later WHERE later.retry_of = ended.id AND later.trigger = 'retry')
  AND NOT EXISTS (SELECT 1 FROM delivery WHERE run_id = ended.id AND event = ended.event AND target = ended.target)
  -- of failures in a row only one is told for each time of `remind`
  AND (ended.event <> 'failed' OR ended.remind IS NULL OR (
      ended.finished_at > ended.since + ended.remind
      AND NOT EXISTS (
          SELECT 1 FROM delivery JOIN run AS earlier ON earlier.id = delivery.run_id
          WHERE delivery.event = 'failed' AND delivery.target = ended.target AND earlier.job_id = ended.job_id
            AND delivery.created_at > ended.finished_at - ended.remind AND earlier.finished_at <= ended.finished_at + :slack
      )
  ))
LIMIT :limit

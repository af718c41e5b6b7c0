-- Ends of runs that a target was to be told of and that have no delivery, since job and targets are what they are now.
SELECT ended.job, ended.number, ended.target, ended.event
FROM (
    SELECT told.job, run.id, run.job_id, run.number, run.finished_at, told.since,
           told.target ->> 'name' AS target, told.target -> 'on' AS events, CAST(told.target ->> 'remind' AS bigint) AS remind,
           CASE run.status
               WHEN 'COMPLETED' THEN 'completed'
               WHEN 'CANCELLED' THEN 'cancelled'
               WHEN 'FAILED' THEN 'failed'
               ELSE CASE WHEN run.reason = 'missed' AND strpos(told.target ->> 'on', '"missed"') > 0 THEN 'missed' ELSE 'skipped' END
           END AS event
    FROM (
        SELECT job.id AS job_id, job.name AS job, greatest(job.updated_at, :since) AS since, own.value AS target
        FROM notifying JOIN job ON job.id = notifying.job_id
        JOIN job_version AS version ON version.job_id = job.id AND version.version = job.version
        CROSS JOIN json_array_elements(CAST(version.spec AS json) -> 'notify_own') AS own (value)
        UNION ALL
        SELECT job.id, job.name, greatest(job.updated_at, :since, :targets_at), declared.value
        FROM notifying JOIN job ON job.id = notifying.job_id
        JOIN job_version AS version ON version.job_id = job.id AND version.version = job.version
        CROSS JOIN json_array_elements_text(CAST(version.spec AS json) -> 'notify') AS named (value)
        JOIN json_each(CAST(:targets AS json)) AS declared ON declared.key = named.value
    ) AS told
    JOIN run ON run.job_id = told.job_id AND run.status IN ('COMPLETED', 'FAILED', 'SKIPPED', 'CANCELLED')
        AND run.finished_at > told.since
    WHERE CAST(:jobs AS text) IS NULL OR told.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))
) AS ended
WHERE ended.event IN (SELECT json_array_elements_text(ended.events))
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

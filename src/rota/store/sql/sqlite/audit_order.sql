-- INV-004: the rank of a queued run is its priority, or 0 under aging.
SELECT job.name, run.number, run.rank, run.priority FROM run JOIN job ON job.id = run.job_id
WHERE run.status = 'QUEUED' AND run.rank <> CASE WHEN :aging THEN 0 ELSE run.priority END
  AND (:jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs))) LIMIT :limit

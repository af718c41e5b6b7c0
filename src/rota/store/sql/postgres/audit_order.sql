-- INV-004: the rank of a queued run is its priority, or 0 under aging.
SELECT job.name, run.number, run.rank, run.priority FROM run JOIN job ON job.id = run.job_id
WHERE run.status = 'QUEUED' AND run.rank <> CASE CAST(:aging AS bigint) WHEN 1 THEN 0 ELSE run.priority END
  AND (CAST(:jobs AS text) IS NULL OR run.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))) LIMIT :limit

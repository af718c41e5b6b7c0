SELECT * FROM (
    SELECT job.name, run.number, run.status, run.reason, CASE
        WHEN run.status NOT IN ('QUEUED', 'DISPATCHED', 'RUNNING', 'COMPLETED', 'FAILED', 'SKIPPED', 'CANCELLED') THEN 'which is no status'
        WHEN (run.status IN ('COMPLETED', 'FAILED', 'SKIPPED', 'CANCELLED')) <> (run.finished_at IS NOT NULL) THEN 'which does not fit its finish time'
        WHEN (run.status IN ('FAILED', 'SKIPPED', 'CANCELLED')) <> (run.reason IS NOT NULL) THEN 'which must have a reason exactly if it went wrong'
        WHEN run.reason IS NOT NULL AND run.status || '/' || run.reason NOT IN (SELECT json_array_elements_text(CAST(:reasons AS json))) THEN 'a reason that this status does not have'
        WHEN run.status IN ('DISPATCHED', 'RUNNING') AND run.lane_id <> 0 AND (run.worker_id IS NULL OR run.slot IS NULL OR run.epoch IS NULL) THEN 'but no worker holds it'
        WHEN run.status = 'QUEUED' AND (run.slot IS NOT NULL OR run.epoch IS NOT NULL OR run.started_at IS NOT NULL) THEN 'but still has a slot or a start'
        WHEN run.status = 'SKIPPED' AND run.started_at IS NOT NULL THEN 'but it started'
        WHEN run.status = 'RUNNING' AND run.started_at IS NULL THEN 'but never started'
        WHEN (run.started_at IS NOT NULL OR run.status = 'DISPATCHED') AND run.lane_id <> 0 AND run.first_dispatched_at IS NULL THEN 'but was never dispatched (INV-001)'
        WHEN run.waiting_for IS NOT NULL AND run.status <> 'QUEUED' THEN 'but waits for ' || run.waiting_for
        WHEN run.not_before IS NOT NULL AND run.waiting_for IS NULL THEN 'but has a time to wait for without a cause'
        WHEN (run.trigger = 'schedule') <> (run.slot_key IS NOT NULL AND run.scheduled_for IS NOT NULL) THEN 'but its trigger ' || run.trigger || ' does not fit its key'
        WHEN run.position <= 0 THEN 'but has no place in the order (INV-004)'
        WHEN job_version.job_id IS NULL THEN 'but its version ' || run.version || ' is not there (INV-005)'
    END AS what
    FROM run JOIN job ON job.id = run.job_id
    LEFT JOIN job_version ON job_version.job_id = run.job_id AND job_version.version = run.version
    WHERE CAST(:jobs AS text) IS NULL OR run.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))
) AS found WHERE what IS NOT NULL LIMIT :limit

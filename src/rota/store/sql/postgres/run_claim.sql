-- CASE hides the condition from the planner: it would read all that is queued, believing that to be next to nothing, and join that.
UPDATE run SET status = item.status, worker_id = :worker_id, slot = item.slot, epoch = :epoch,
    first_dispatched_at = coalesce(first_dispatched_at, :now), started_at = item.started_at
FROM (
    SELECT value ->> 0 AS id, CAST(value ->> 1 AS bigint) AS slot, value ->> 2 AS status, CAST(value ->> 3 AS bigint) AS started_at
    FROM jsonb_array_elements(CAST(:runs AS jsonb))) AS item
WHERE run.id = ANY (ARRAY(SELECT value ->> 0 FROM jsonb_array_elements(CAST(:runs AS jsonb)))) AND run.id = item.id
    AND CASE WHEN run.status = 'QUEUED' AND run.waiting_for IS NULL THEN true ELSE false END

UPDATE run SET status = item.status, worker_id = :worker_id, slot = item.slot, epoch = :epoch,
    first_dispatched_at = coalesce(first_dispatched_at, :now), started_at = item.started_at
FROM (SELECT value ->> 0 AS id, value ->> 1 AS slot, value ->> 2 AS status, value ->> 3 AS started_at FROM json_each(:runs)) AS item
WHERE run.id = item.id AND run.status = 'QUEUED' AND run.waiting_for IS NULL

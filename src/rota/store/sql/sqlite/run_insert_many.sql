-- Runs of one job that differ in params, instant and predecessor alone, in the order of the list.
INSERT INTO run (id, job_id, number, version, trigger, scheduled_for, status, waiting_for, expires_at, predecessor_id, lane_id, priority, rank,
    position, params, forced, created_at, decisions)
SELECT item.value ->> 0, :job_id, :first + item.key, :version, :trigger, item.value ->> 2, 'QUEUED',
    iif(item.value ->> 3 IS NULL, NULL, 'predecessor'), :expires_at, item.value ->> 3, :lane_id, :priority, :rank,
    :position + item.key * :gap, coalesce(item.value ->> 1, :params), :forced, :created_at, :decisions
FROM json_each(:siblings) AS item

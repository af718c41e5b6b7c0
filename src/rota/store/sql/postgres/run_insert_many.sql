-- Runs of one job that differ in params, instant and predecessor alone, in the order of the list.
INSERT INTO run (id, job_id, number, version, trigger, scheduled_for, status, waiting_for, expires_at, predecessor_id, lane_id, priority, rank,
    position, params, forced, created_at, decisions)
SELECT value ->> 0, :job_id, CAST(:first AS bigint) + key - 1, :version, :trigger, CAST(value ->> 2 AS bigint), 'QUEUED',
    CASE WHEN value ->> 3 IS NOT NULL THEN 'predecessor' END, :expires_at, value ->> 3, :lane_id, :priority, :rank,
    CAST(:position AS bigint) + (key - 1) * :gap, coalesce(value ->> 1, :params), :forced, :created_at, :decisions
FROM json_array_elements(CAST(:siblings AS json)) WITH ORDINALITY AS item (value, key) ORDER BY key

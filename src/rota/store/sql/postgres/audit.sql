-- name: change_bounds
-- Up to the oldest transaction under way: what has a higher number may yet get company below it.
SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM change
WHERE seq < CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint) << 20

-- name: runs_ended_aside
-- A run that ended in a slot has an epoch, and its process reports it; the run of a group, in lane 0, has no slot.
SELECT run.id FROM run JOIN ended ON ended.run = run.seq
WHERE run.seq IN (SELECT CAST(unnest(string_to_array(subject, ' ')) AS bigint) FROM change WHERE seq > :after AND seq <= :last AND kind LIKE 'run%')
    AND ended.epoch IS NULL AND (ended.status = 7 OR run.lane_id = 0)
ORDER BY run.lane_id = 0, run.id LIMIT :limit

-- name: changes_after
-- Up to the oldest open transaction: lower numbers may still appear below newer ones. A row covers all runs of a statement.
SELECT told.seq, told.kind, coalesce(run.id, told.subject)
FROM (
    SELECT seq, kind, unnest(string_to_array(subject, ' ')) AS subject FROM change
    WHERE seq > :seq AND seq < CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint) << 20 ORDER BY seq LIMIT :limit) AS told
LEFT JOIN run ON run.seq = CASE WHEN told.kind LIKE 'run%' THEN CAST(told.subject AS bigint) END
ORDER BY told.seq

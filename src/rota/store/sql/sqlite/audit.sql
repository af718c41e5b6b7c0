-- name: change_bounds
SELECT coalesce((SELECT min(seq) FROM change), 0), coalesce((SELECT max(seq) FROM change), 0)

-- name: runs_ended_aside
-- A run that ended in a slot has an epoch, and its process reports it; the run of a group, in lane 0, has no slot.
SELECT run.id FROM run JOIN ended ON ended.run = run.seq
WHERE run.seq IN (SELECT CAST(subject AS INTEGER) FROM change WHERE seq > :after AND seq <= :last AND kind LIKE 'run%')
    AND ended.epoch IS NULL AND (ended.status = 7 OR run.lane_id = 0)
ORDER BY run.lane_id = 0, run.id LIMIT :limit

-- name: changes_after
SELECT change.seq, change.kind, coalesce(run.id, change.subject) FROM change
LEFT JOIN run ON change.kind LIKE 'run%' AND run.seq = CAST(change.subject AS INTEGER)
WHERE change.seq > :seq ORDER BY change.seq LIMIT :limit

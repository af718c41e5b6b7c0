-- name: change_bounds
SELECT coalesce((SELECT min(seq) FROM change), 0), coalesce((SELECT max(seq) FROM change), 0)

-- name: runs_ended_aside
-- A run that ended in a slot has an epoch, and its process reports it; the run of a group, in lane 0, has no slot.
SELECT run.id FROM run
WHERE run.id IN (SELECT subject FROM change WHERE seq > :after AND seq <= :last AND kind <> 'job')
    AND run.finished_at IS NOT NULL AND run.epoch IS NULL AND (run.status = 'CANCELLED' OR run.lane_id = 0)
ORDER BY run.lane_id = 0, run.id LIMIT :limit

-- name: changes_after
SELECT seq, kind, subject FROM change WHERE seq > :seq ORDER BY seq LIMIT :limit

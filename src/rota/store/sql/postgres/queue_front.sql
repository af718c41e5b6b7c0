-- Those who stand first in the whole queue, whatever they draw.
SELECT run.lane_id, lane.key, run.rank, run.position, run.created_at, run.id
FROM run JOIN lane ON lane.id = run.lane_id
WHERE run.status = 'QUEUED' AND run.waiting_for IS NULL AND run.number > 0
ORDER BY run.rank DESC, run.position, run.created_at, run.id LIMIT :limit

-- Those who stand first in a lane.
SELECT rank, position, created_at, id FROM run INDEXED BY run_ready
WHERE lane_id = :lane_id AND status = 'QUEUED' AND waiting_for IS NULL
ORDER BY rank DESC, position, created_at, id LIMIT :limit

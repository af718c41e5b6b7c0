-- Those who stand first in a lane.
SELECT rank, position, created_at, id FROM run
WHERE lane_id = :lane_id AND status = 'QUEUED' AND waiting_for IS NULL AND lane_id > 0
ORDER BY rank DESC, position, created_at, id LIMIT :limit

SELECT position, created_at, id FROM run
WHERE lane_id = :lane_id AND status = 'QUEUED' AND waiting_for IS NULL AND rank = :rank
  AND (position, created_at, id) > (:position, :created_at, :id)
ORDER BY position, created_at, id LIMIT :each

SELECT position, created_at, id FROM run
WHERE status = 'QUEUED' AND waiting_for IS NOT NULL AND rank = :rank
  AND (position, created_at, id) > (:position, :created_at, :id)
ORDER BY position, created_at, id LIMIT :each

-- Behind a spot within a rank, nearest first: what may be claimed and what waits, two indexes read side by side.
SELECT position, created_at, id FROM run
WHERE status = 'QUEUED' AND waiting_for IS NULL AND rank = :rank AND (position, created_at, id) > (:position, :created_at, :id)
UNION ALL
SELECT position, created_at, id FROM run
WHERE status = 'QUEUED' AND waiting_for IS NOT NULL AND rank = :rank AND (position, created_at, id) > (:position, :created_at, :id)
ORDER BY position, created_at, id LIMIT :limit

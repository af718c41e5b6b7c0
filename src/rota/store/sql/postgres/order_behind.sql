-- The same towards the head of the queue: before a spot, nearest first.
SELECT position, created_at, id FROM (
    SELECT position, created_at, id FROM run
    WHERE status = 'QUEUED' AND waiting_for IS NULL AND number > 0 AND rank = :rank AND (position, created_at, id) < (:position, :created_at, :id)
    ORDER BY position DESC, created_at DESC, id DESC LIMIT :limit) AS ready
UNION ALL
SELECT position, created_at, id FROM (
    SELECT position, created_at, id FROM run
    WHERE status = 'QUEUED' AND waiting_for IS NOT NULL AND rank = :rank AND (position, created_at, id) < (:position, :created_at, :id)
    ORDER BY position DESC, created_at DESC, id DESC LIMIT :limit) AS held
ORDER BY position DESC, created_at DESC, id DESC LIMIT :limit

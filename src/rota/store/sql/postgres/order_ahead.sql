-- Behind a spot within a rank, nearest first: what may be claimed and what waits, each read no further than needed.
SELECT position, created_at, id FROM (
    SELECT position, created_at, id FROM run
    WHERE status = 'QUEUED' AND waiting_for IS NULL AND number > 0 AND rank = :rank AND (position, created_at, id) > (:position, :created_at, :id)
    ORDER BY position, created_at, id LIMIT :limit) AS ready
UNION ALL
SELECT position, created_at, id FROM (
    SELECT position, created_at, id FROM run
    WHERE status = 'QUEUED' AND waiting_for IS NOT NULL AND rank = :rank AND (position, created_at, id) > (:position, :created_at, :id)
    ORDER BY position, created_at, id LIMIT :limit) AS held
ORDER BY position, created_at, id LIMIT :limit

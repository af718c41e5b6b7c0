-- How many runs that may be claimed stand before a spot of a rank, counted no further than the limit.
SELECT count(*) FROM (
    SELECT 1 FROM run WHERE status = 'QUEUED' AND waiting_for IS NULL AND number > 0 AND rank > :rank
    UNION ALL
    SELECT 1 FROM run WHERE status = 'QUEUED' AND waiting_for IS NULL AND number > 0 AND rank = :rank
        AND (position, created_at, id) < (:position, :created_at, :id)
    LIMIT :limit) AS before

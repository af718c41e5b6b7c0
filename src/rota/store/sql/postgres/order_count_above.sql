-- How many runs that may be claimed are of a higher rank, counted no further than the limit.
SELECT count(*) FROM (
    SELECT 1 FROM run WHERE status = 'QUEUED' AND waiting_for IS NULL AND number > 0 AND rank > :rank
    ORDER BY rank DESC, position, created_at, id LIMIT :limit) AS above

-- How many runs that may be claimed are of a higher rank, counted no further than the limit.
SELECT count(*) FROM (
    SELECT 1 FROM run INDEXED BY run_order WHERE status = 'QUEUED' AND waiting_for IS NULL AND rank > :rank LIMIT :limit)

-- The end of a lost process is when others noticed; its last sign of life is the last renewal of its lease, or a start.
SELECT max(seen) FROM (
    SELECT CASE WHEN ended_at IS NULL OR ending = 'lost' THEN coalesce(lease_until - :lease, started_at) ELSE ended_at END AS seen
    FROM process WHERE worker_id = :worker_id
    UNION ALL
    SELECT started_at FROM (SELECT started_at FROM execution WHERE worker_id = :worker_id ORDER BY id DESC LIMIT 1) AS newest
) AS signs

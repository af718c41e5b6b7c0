-- Up to the oldest transaction under way: what has a higher number may yet get company below it. A row tells of all runs of a statement.
SELECT seq, kind, unnest(string_to_array(subject, ' ')) FROM change
WHERE seq > :seq AND seq < CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint) << 20 ORDER BY seq LIMIT :limit

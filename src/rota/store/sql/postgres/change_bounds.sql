-- Up to the oldest transaction under way: what has a higher number may yet get company below it.
SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM change
WHERE seq < CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint) << 20

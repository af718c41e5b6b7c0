SELECT coalesce(max(epoch), 0) FROM process WHERE ended_at IS NOT NULL

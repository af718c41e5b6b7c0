-- The highest rank below one among the runs that may be claimed.
SELECT rank FROM run INDEXED BY run_order WHERE status = 'QUEUED' AND waiting_for IS NULL AND rank < :rank ORDER BY rank DESC LIMIT 1

-- The highest rank below one among the runs that may be claimed.
SELECT rank FROM run WHERE status = 'QUEUED' AND waiting_for IS NULL AND number > 0 AND rank < :rank ORDER BY rank DESC LIMIT 1

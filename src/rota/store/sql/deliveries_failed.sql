SELECT target, count(*), max(error), max(finished_at) FROM delivery
WHERE created_at >= :since AND status = 'FAILED' AND (:prefix = '' OR substr(handle, 1, length(:prefix)) = :prefix)
GROUP BY target ORDER BY target

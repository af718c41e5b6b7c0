SELECT number, version, slot_key, scheduled_for, covers_to, count, status FROM run
WHERE job_id = :job_id AND number > :after AND trigger = 'schedule' AND coalesce(covers_to, scheduled_for) >= :since
ORDER BY number LIMIT :limit

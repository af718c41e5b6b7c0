SELECT scheduled_for FROM run WHERE job_id = :job_id AND trigger = 'backfill' AND scheduled_for >= :since AND scheduled_for < :until

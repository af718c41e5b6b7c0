-- The status is that of the chain: of its last run, which may be a retry.
SELECT number, version, slot_key, scheduled_for, covers_to, count,
    coalesce((SELECT last.status FROM run last WHERE last.chain_id = run.id ORDER BY last.attempt DESC LIMIT 1), status), reason,
    created_at, CAST(decisions AS json) ->> 'made_up' = 'resume'
FROM run
WHERE job_id = :job_id AND number > :after AND trigger = 'schedule' AND coalesce(covers_to, scheduled_for) >= :since
ORDER BY number LIMIT :limit

SELECT claim, run_id, handle, source, asked_at, item, claimed_at, state, ended_at, report, attempts, not_before, told_at, error FROM work_item
WHERE run_id = :run_id ORDER BY asked_at DESC, claim DESC LIMIT 1

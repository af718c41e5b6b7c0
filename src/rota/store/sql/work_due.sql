SELECT claim, run_id, handle, source, asked_at, item, claimed_at, state, ended_at, report, attempts, not_before, told_at, error FROM work_item
WHERE not_before <= :now ORDER BY not_before, claim LIMIT :limit

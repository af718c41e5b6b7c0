-- What sources were never told, the newest first.
SELECT claim, run_id, handle, source, asked_at, item, claimed_at, state, ended_at, report, attempts, not_before, told_at, error FROM work_item
WHERE state = 'given_up' AND told_at >= :since AND (:prefix = '' OR substr(handle, 1, length(:prefix)) = :prefix)
ORDER BY told_at DESC, claim DESC LIMIT :limit

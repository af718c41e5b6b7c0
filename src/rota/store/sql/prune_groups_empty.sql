-- Groups whose members are all gone, unless a newer group repeats one.
SELECT id FROM run_group
WHERE id < :before AND finished_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM run WHERE run.group_id = run_group.id)
  AND NOT EXISTS (SELECT 1 FROM run_group newer WHERE newer.retry_of = run_group.id)
ORDER BY id LIMIT :limit

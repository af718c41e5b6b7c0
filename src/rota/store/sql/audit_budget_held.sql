-- R-19: what is reserved belongs to something that is about to start or runs; what was spent before a start to a run that may
-- still start.
SELECT entry.budget, entry.run_id, entry.estimate IS NOT NULL FROM budget_entry AS entry
LEFT JOIN run ON run.id = entry.run_id
WHERE entry.settled IS NULL
  AND NOT EXISTS (SELECT 1 FROM direct_wait WHERE direct_wait.id = entry.run_id AND direct_wait.slot IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM direct_hold WHERE direct_hold.execution_id = entry.run_id)
  AND NOT coalesce(run.status IN ('DISPATCHED', 'RUNNING') OR (run.status = 'QUEUED' AND entry.estimate IS NULL), false)
LIMIT :limit

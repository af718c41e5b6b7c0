-- What is asked for or held belongs to something that is about to start or runs.
SELECT item.handle, item.source_key, item.item_id FROM work_item AS item
LEFT JOIN run ON run.id = item.run_id
WHERE item.ended_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM direct_wait WHERE direct_wait.id = item.run_id AND direct_wait.slot IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM direct_hold WHERE direct_hold.execution_id = item.run_id)
  AND NOT coalesce(run.status IN ('DISPATCHED', 'RUNNING'), false)
LIMIT :limit

DELETE FROM run_group WHERE id IN (SELECT json_array_elements_text(CAST(:ids AS json)))
  AND finished_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM run WHERE run.group_id = run_group.id)

SELECT coalesce(max(number), 0) + 1 FROM run_group WHERE name = :name AND run_id IS NULL

SELECT count(*), coalesce(sum(iif(settled IS NOT NULL AND NOT measured, settled, 0)), 0) FROM budget_entry
WHERE window_id = :window_id

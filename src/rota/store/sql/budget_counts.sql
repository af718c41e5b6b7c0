SELECT count(*), coalesce(sum(CASE WHEN settled IS NOT NULL AND measured = 0 THEN settled ELSE 0 END), 0) FROM budget_entry
WHERE window_id = :window_id

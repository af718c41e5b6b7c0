-- What a window used after some of it had passed.
SELECT coalesce(sum(settled), 0) FROM budget_entry WHERE window_id = :window_id AND settled_at > :after

SELECT source_key, item_id, string_agg(handle, ', ') FROM work_item
WHERE state = 'held' GROUP BY source_key, item_id HAVING count(*) > 1 LIMIT :limit

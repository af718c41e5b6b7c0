DELETE FROM work_item WHERE run_id IN (SELECT value FROM json_each(:ids)) AND told_at IS NOT NULL

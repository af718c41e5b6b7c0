DELETE FROM output WHERE run_id IN (SELECT value FROM json_each(:ids))

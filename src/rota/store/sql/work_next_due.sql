SELECT min(not_before) FROM work_item WHERE not_before IS NOT NULL

UPDATE work_item
SET state = CASE state WHEN 'reporting' THEN 'reported' ELSE 'released' END, not_before = NULL, told_at = :now, error = NULL
WHERE claim = :claim AND state IN ('reporting', 'releasing')

UPDATE run SET position = item.position
FROM (SELECT value ->> 0 AS id, value ->> 1 AS position FROM json_each(:runs)) AS item
WHERE run.id = item.id AND run.status = 'QUEUED'

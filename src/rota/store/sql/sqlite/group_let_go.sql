UPDATE run SET waiting_for = NULL, expires_at = item.expires_at
FROM (SELECT value ->> 0 AS id, value ->> 1 AS expires_at FROM json_each(:members)) AS item
WHERE run.id = item.id AND run.status = 'QUEUED' AND run.waiting_for = 'predecessor'

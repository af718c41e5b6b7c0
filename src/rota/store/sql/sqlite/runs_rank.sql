UPDATE run SET rank = item.rank, position = item.position
FROM (SELECT value ->> 0 AS id, value ->> 1 AS rank, value ->> 2 AS position FROM json_each(:places)) AS item
WHERE run.id = item.id

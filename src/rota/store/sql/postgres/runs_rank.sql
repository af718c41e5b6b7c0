UPDATE run SET rank = item.rank, position = item.position
FROM (
    SELECT value ->> 0 AS id, CAST(value ->> 1 AS bigint) AS rank, CAST(value ->> 2 AS bigint) AS position
    FROM json_array_elements(CAST(:places AS json))) AS item
WHERE run.id = item.id

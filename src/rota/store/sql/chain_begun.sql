SELECT trigger, (SELECT min(started_at) FROM (
    SELECT started_at FROM run WHERE id = :id UNION ALL SELECT started_at FROM run WHERE chain_id = :id) AS chain)
FROM run WHERE id = :id

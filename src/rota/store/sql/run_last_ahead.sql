-- A retry stands where its chain began (R-11).
SELECT other.id
FROM run waiting JOIN run other ON other.job_id = (SELECT job_id FROM run WHERE id = :id) AND other.finished_at IS NULL AND other.id <> waiting.id
LEFT JOIN run root ON root.id = other.chain_id
WHERE waiting.id = :id AND coalesce(root.number, other.number) < waiting.number
ORDER BY coalesce(root.number, other.number) DESC LIMIT 1

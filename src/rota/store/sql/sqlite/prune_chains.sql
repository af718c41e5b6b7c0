-- The runs of the chains that these end: a chain goes as one.
SELECT earlier.id FROM json_each(:ids) AS item JOIN run ON run.id = item.value
JOIN run earlier ON earlier.id = run.chain_id OR earlier.chain_id = run.chain_id
WHERE run.chain_id IS NOT NULL

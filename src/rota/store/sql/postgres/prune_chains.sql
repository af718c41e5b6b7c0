-- The runs of the chains that these end: a chain goes as one.
SELECT earlier.id FROM json_array_elements_text(CAST(:ids AS json)) AS item (id) JOIN run ON run.id = item.id
JOIN run earlier ON earlier.id = run.chain_id OR earlier.chain_id = run.chain_id
WHERE run.chain_id IS NOT NULL

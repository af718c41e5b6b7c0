UPDATE budget SET declared = 0
WHERE declared = 1 AND name NOT IN (SELECT item ->> 0 FROM json_array_elements(CAST(:accounts AS json)) AS item)

UPDATE pool SET declared = 0 WHERE declared = 1 AND name NOT IN (SELECT key FROM json_each(:pools))

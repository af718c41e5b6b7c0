UPDATE budget SET declared = 0 WHERE declared = 1 AND name NOT IN (SELECT value ->> 0 FROM json_each(:accounts))

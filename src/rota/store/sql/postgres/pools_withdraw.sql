UPDATE pool SET declared = 0 WHERE declared = 1 AND name NOT IN (SELECT json_object_keys(CAST(:pools AS json)))

SELECT coalesce((SELECT min(seq) FROM change), 0), coalesce((SELECT max(seq) FROM change), 0)

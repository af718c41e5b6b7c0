SELECT iif(integrity_check = 'ok', 'ok', 'violation'), integrity_check FROM pragma_integrity_check LIMIT :limit

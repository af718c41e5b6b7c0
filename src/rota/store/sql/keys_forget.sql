DELETE FROM request_key WHERE at < :before

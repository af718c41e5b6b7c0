DELETE FROM event WHERE at < :before

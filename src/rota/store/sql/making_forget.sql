DELETE FROM making WHERE maker = :maker AND kind = :kind AND at < :before

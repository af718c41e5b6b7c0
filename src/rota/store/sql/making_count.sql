SELECT count(*) FROM making WHERE maker = :maker AND kind = :kind AND at >= :since

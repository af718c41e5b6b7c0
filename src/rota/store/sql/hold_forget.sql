DELETE FROM provider_hold WHERE pool = :pool RETURNING until

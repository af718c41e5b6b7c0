DELETE FROM direct_wait WHERE slot IS NULL AND (CAST(:boot_id AS text) IS NULL OR boot_id = :boot_id)

SELECT clock_offset FROM process WHERE boot_id = :boot_id AND clock_offset IS NOT NULL ORDER BY epoch DESC LIMIT 1

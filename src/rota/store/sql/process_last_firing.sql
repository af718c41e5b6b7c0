SELECT boot_id, worker_id FROM process WHERE kind <> 'worker' ORDER BY epoch DESC LIMIT 1

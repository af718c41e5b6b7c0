UPDATE run SET predecessor_id = :successor_id
WHERE predecessor_id = :id AND predecessor_id IS NOT NULL AND waiting_for IS NOT NULL

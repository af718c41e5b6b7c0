SELECT name, id, registered_at, seen_at, lost_after FROM remote_worker ORDER BY name

INSERT INTO remote_worker (name, id, registered_at, seen_at, lost_after) VALUES (:name, :id, :now, :now, :lost_after)
ON CONFLICT (name) DO UPDATE SET seen_at = :now, lost_after = :lost_after

-- A group's run, in lane 0, is never claimed.
UPDATE run SET waiting_for = NULL, not_before = NULL WHERE id = :id AND status = 'QUEUED' AND lane_id <> 0

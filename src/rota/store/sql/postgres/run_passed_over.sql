-- After a claim that found too few. Who holds a run may let go of it without a change, so that nobody is told.
SELECT 1 FROM run WHERE lane_id = :lane_id AND status = 'QUEUED' AND waiting_for IS NULL AND lane_id > 0 LIMIT 1

SELECT count(*) FROM (
    SELECT 1 FROM lane CROSS JOIN run q ON q.lane_id = lane.id AND q.status = 'QUEUED' AND q.waiting_for IS NULL
    WHERE lane.id > 0 LIMIT :limit)

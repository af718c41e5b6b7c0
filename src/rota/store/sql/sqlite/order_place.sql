-- How many ready runs of a rank stand before a spot, counted no further than the limit.
SELECT count(*) FROM (
    SELECT 1 FROM lane CROSS JOIN run q ON q.lane_id = lane.id AND q.status = 'QUEUED' AND q.waiting_for IS NULL AND q.rank = :rank
        AND (q.position, q.created_at, q.id) < (:position, :created_at, :id)
    WHERE lane.id > 0 LIMIT :limit)

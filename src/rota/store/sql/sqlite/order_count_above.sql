-- How many ready runs are of a higher rank, counted no further than the limit.
SELECT count(*) FROM (
    SELECT 1 FROM lane CROSS JOIN run q ON q.lane_id = lane.id AND q.status = 'QUEUED' AND q.waiting_for IS NULL AND q.rank > :rank
    WHERE lane.id > 0 LIMIT :limit)

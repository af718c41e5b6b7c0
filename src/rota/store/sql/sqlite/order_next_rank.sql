-- The highest rank below one among the ready runs, by one step into the index of each lane.
SELECT max((SELECT q.rank FROM run q WHERE q.lane_id = lane.id AND q.status = 'QUEUED' AND q.waiting_for IS NULL AND q.rank < :rank
    ORDER BY q.rank DESC LIMIT 1))
FROM lane WHERE lane.id > 0

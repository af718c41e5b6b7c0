-- What is still to be sent has a time at which it is, and what is over has none.
SELECT handle, target, event FROM delivery
WHERE (status = 'PENDING') <> (next_at IS NOT NULL) OR (status = 'PENDING') = (finished_at IS NOT NULL)
LIMIT :limit

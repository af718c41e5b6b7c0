-- Who may reserve: a run, or a direct call, that stands at its gates in a slot of this process.
SELECT 1 FROM run WHERE id = :id AND status = 'DISPATCHED' AND epoch = :epoch
UNION ALL SELECT 1 FROM direct_wait WHERE id = :id AND epoch = :epoch

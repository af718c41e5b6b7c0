-- Who may reserve: a run, or a direct call, that stands at its gates in a slot of this process; it stays there until the commit.
WITH queued AS (
    SELECT 1 FROM run WHERE id = :id AND status = 'DISPATCHED' AND epoch = :epoch
    -- when writing: FOR NO KEY UPDATE
),
called AS (
    SELECT 1 FROM direct_wait WHERE id = :id AND epoch = :epoch
    -- when writing: FOR NO KEY UPDATE
)
SELECT 1 FROM queued UNION ALL SELECT 1 FROM called

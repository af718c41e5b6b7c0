-- The newest times that earlier processes wrote, for the first process of a boot: it has no boot clock to compare with theirs (R-26).
SELECT process.started_at, process.ended_at,
    (SELECT created_at FROM run ORDER BY id DESC LIMIT 1),
    (SELECT started_at FROM execution ORDER BY id DESC LIMIT 1),
    (SELECT finished_at FROM execution ORDER BY id DESC LIMIT 1),
    (SELECT max(first_dispatched_at) FROM run WHERE finished_at IS NULL)
FROM process ORDER BY epoch DESC LIMIT 1

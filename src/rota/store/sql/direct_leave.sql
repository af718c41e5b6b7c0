-- Whoever asked gives up, is gone, or gets what it asked for: `epoch` is null while it waits.
DELETE FROM direct_wait WHERE id = :id AND epoch IS NOT DISTINCT FROM :epoch

-- `epoch` null: the caller itself, which need not know who carries its call.
DELETE FROM direct_hold WHERE execution_id = :id AND (CAST(:epoch AS bigint) IS NULL OR epoch = :epoch)

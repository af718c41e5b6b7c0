SELECT handle FROM work_item WHERE source_key = :source_key AND state = 'held' ORDER BY claimed_at, claim

-- How many runs failed at an item since its source was last told how it ended.
SELECT count(*) FROM work_item
WHERE source_key = :source_key AND item_id = :item_id AND failed = 1 AND state IN ('releasing', 'released', 'given_up')
  AND claimed_at > coalesce((
    SELECT max(claimed_at) FROM work_item WHERE source_key = :source_key AND item_id = :item_id AND report IS NOT NULL
  ), -1)

-- A source that answered after nobody waited any more may have claimed something all the same.
UPDATE work_item SET state = 'releasing', attempts = 0, not_before = :now, told_at = NULL
WHERE claim = :claim AND state IN ('releasing', 'released', 'given_up') AND item_id IS NULL

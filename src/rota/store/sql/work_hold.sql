UPDATE work_item SET state = 'held', item_id = :item_id, item = :item, claimed_at = :claimed_at
WHERE claim = :claim AND state = 'asking'
  AND NOT EXISTS (
    SELECT 1 FROM work_item AS other
    WHERE other.source_key = work_item.source_key AND other.item_id = :item_id AND other.state = 'held'
  )

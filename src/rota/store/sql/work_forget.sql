DELETE FROM work_item WHERE claim = :claim AND state = 'asking'

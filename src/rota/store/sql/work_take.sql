-- Whoever tells a source has it to itself until then.
UPDATE work_item SET attempts = attempts + 1, not_before = :until WHERE claim = :claim AND not_before <= :now

UPDATE work_item SET state = :state, ended_at = :ended_at, not_before = :not_before, failed = :failed, report = :report
WHERE claim = :claim AND ended_at IS NULL

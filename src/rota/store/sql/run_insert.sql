INSERT INTO run (id, job_id, number, version, trigger, slot_key, scheduled_for, covers_to, count, status, reason, waiting_for, not_before,
    expires_at, predecessor_id, lane_id, priority, rank, position, params, attempt, retry_of, chain_id, group_id, place, always, forced,
    created_at, started_at, finished_at, error, decisions)
VALUES (:id, :job_id, :number, :version, :trigger, :slot_key, :scheduled_for, :covers_to, :count, :status, :reason, :waiting_for, :not_before,
    :expires_at, :predecessor_id, :lane_id, :priority, :rank, :position, :params, :attempt, :retry_of, :chain_id, :group_id, :place, :always,
    :forced, :created_at, :started_at, :finished_at, :error, :decisions)

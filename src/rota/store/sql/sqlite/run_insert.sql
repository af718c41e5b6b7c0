INSERT INTO run (id, job_id, number, version, trigger, slot_key, scheduled_for, covers_to, count, status, reason, waiting_for,
    expires_at, predecessor_id, priority, position, params, forced, created_at, finished_at, error, decisions)
VALUES (:id, :job_id, :number, :version, :trigger, :slot_key, :scheduled_for, :covers_to, :count, :status, :reason, :waiting_for,
    :expires_at, :predecessor_id, :priority, :position, :params, :forced, :created_at, :finished_at, :error, :decisions)

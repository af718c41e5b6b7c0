SELECT job_id, trigger, scheduled_for, started_at, predecessor_id FROM run WHERE id = :id

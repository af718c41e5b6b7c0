INSERT INTO run_group (id, name, number, run_id, mode, on_failure, size, retry_of, created_at)
VALUES (:id, :name, :number, :run_id, :mode, :on_failure, :size, :retry_of, :now)

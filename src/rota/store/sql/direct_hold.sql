INSERT INTO direct_hold (execution_id, epoch) VALUES (:id, :epoch)

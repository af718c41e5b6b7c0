DELETE FROM abandoned WHERE run_id = :run_id RETURNING lane_id

-- A thread that outlives its call keeps slot and pools, as one of a run does.
INSERT INTO abandoned (run_id, lane_id, slot, epoch) SELECT id, lane_id, slot, :epoch FROM execution WHERE id = :id

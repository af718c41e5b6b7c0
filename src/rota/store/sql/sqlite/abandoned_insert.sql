INSERT INTO abandoned (run_id, lane_id, slot, epoch)
SELECT run.id, run.lane_id, run.slot, run.epoch FROM json_each(:ids) AS item JOIN run ON run.id = item.value

INSERT INTO abandoned (run_id, lane_id, slot, epoch)
SELECT run.id, run.lane_id, run.slot, run.epoch
FROM json_array_elements_text(CAST(:ids AS json)) AS item (value) JOIN run ON run.id = item.value

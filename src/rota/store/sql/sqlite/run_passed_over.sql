-- Nobody holds single runs here.
SELECT 1 WHERE :lane_id IS NULL

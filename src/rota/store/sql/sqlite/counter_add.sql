INSERT INTO counter (status, worker_id, count)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:counts) WHERE true
ON CONFLICT (status, worker_id, part) DO UPDATE SET count = count + excluded.count

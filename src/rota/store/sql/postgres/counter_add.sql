-- Each connection has parts of its own: nobody waits here for the commit of another one.
INSERT INTO counter AS known (status, worker_id, part, count)
SELECT item ->> 0, item ->> 1, pg_backend_pid() % 256, CAST(item ->> 2 AS bigint) FROM json_array_elements(CAST(:counts AS json)) AS item
ON CONFLICT (status, worker_id, part) DO UPDATE SET count = known.count + excluded.count

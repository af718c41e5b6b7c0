-- A run that asks again, since it was put back, asks under another name: its first claim may still be on its way back.
INSERT INTO work_item (claim, run_id, handle, source, source_key, asked_at, state)
SELECT CAST(:run_id AS text) || CASE count(*) WHEN 0 THEN '' ELSE '.' || (count(*) + 1) END, :run_id, :handle, :source, :source_key,
    CAST(:asked_at AS bigint), 'asking'
FROM work_item WHERE run_id = :run_id
RETURNING claim

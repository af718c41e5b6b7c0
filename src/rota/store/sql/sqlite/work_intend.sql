-- A run that asks again, since it was put back, asks under another name: its first claim may still be on its way back.
INSERT INTO work_item (claim, run_id, handle, source, source_key, asked_at, state)
SELECT :run_id || iif(count(*) = 0, '', '.' || (count(*) + 1)), :run_id, :handle, :source, :source_key, :asked_at, 'asking'
FROM work_item WHERE run_id = :run_id
RETURNING claim

SELECT run.id, run.status, run.cancel_reason FROM json_each(:ids) AS item JOIN run ON run.id = item.value WHERE run.finished_at IS NULL

-- Which of these instants really ran, by the key of their fire (R-05).
SELECT run.scheduled_for
FROM json_array_elements_text(CAST(:keys AS json)) AS item (value)
JOIN run ON run.job_id = :job_id AND run.slot_key = item.value
WHERE run.status <> 'SKIPPED'

-- Every group with its members counted anew: at each place the newest attempt stands.
SELECT run_group.name, run_group.number, run_group.status, run_group.size, run_group.cancel_requested_at IS NOT NULL,
    run_group.finished_at IS NOT NULL, run_group.run_id IS NOT NULL, run.status, run.reason,
    count(DISTINCT member.place), max(coalesce(member.place, 0)),
    count(member.id) FILTER (WHERE member.finished_at IS NULL), count(*) FILTER (WHERE member.status = 'COMPLETED'),
    count(*) FILTER (WHERE member.status = 'FAILED'), count(*) FILTER (WHERE member.status = 'CANCELLED')
FROM run_group LEFT JOIN run ON run.id = run_group.run_id
LEFT JOIN run member ON member.group_id = run_group.id AND NOT EXISTS (
    SELECT 1 FROM run later WHERE later.group_id = member.group_id AND later.place = member.place AND later.attempt > member.attempt)
WHERE CAST(:jobs AS text) IS NULL OR run.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))
GROUP BY run_group.id, run.id

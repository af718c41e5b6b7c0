-- Every group with its members counted anew: at each place the newest attempt stands.
SELECT run_group.name, run_group.number, run_group.status, run_group.size, run_group.cancel_requested_at IS NOT NULL,
    run_group.finished_at IS NOT NULL, run_group.run_id IS NOT NULL, run.status, run.reason,
    count(DISTINCT member.place), max(coalesce(member.place, 0)),
    sum(member.finished_at IS NULL AND member.id IS NOT NULL), sum(member.status = 'COMPLETED'), sum(member.status = 'FAILED'),
    sum(member.status = 'CANCELLED')
FROM run_group LEFT JOIN run ON run.id = run_group.run_id
LEFT JOIN run member ON member.group_id = run_group.id AND NOT EXISTS (
    SELECT 1 FROM run later WHERE later.group_id = member.group_id AND later.place = member.place AND later.attempt > member.attempt)
WHERE :jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs))
GROUP BY run_group.id

-- How far the account of a job's calendar reaches: to the beginning of its span, or to the last instant that has its row.
SELECT greatest(since, (
    SELECT CASE WHEN slot_key LIKE '#%' THEN 0 ELSE coalesce(covers_to, scheduled_for) END FROM run
    WHERE run.job_id = :job_id AND trigger = 'schedule' ORDER BY number DESC LIMIT 1))
FROM job_version WHERE job_id = :job_id AND version = :version

-- name: job_version_close
-- Never before its beginning, nor before the last instant that has its row: the clock may have stepped back.
UPDATE job_version SET until = max(since, :now, :accounted_to) WHERE job_id = :job_id AND version = :version AND until IS NULL

-- name: job_accounted_to
-- How far the account of a job's calendar reaches: to the beginning of its span, or to the last instant that has its row.
-- Each run of the schedule has a slot key: the index of the keys shows at once that a job has no such run among many others.
SELECT max(since, CASE WHEN EXISTS (SELECT 1 FROM run WHERE run.job = job_version.job AND slot_key IS NOT NULL) THEN coalesce((
    SELECT CASE WHEN slot_key LIKE '#%' THEN 0 ELSE coalesce(covers_to, scheduled_for) END FROM run
    WHERE run.job = job_version.job AND trigger = 'schedule' ORDER BY number DESC LIMIT 1), 0) ELSE 0 END)
FROM job_version WHERE job_id = :job_id AND version = :version

-- name: jobs_following
-- Jobs whose next instant counts from their last run.
SELECT job.id FROM job JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
WHERE (json_extract(job_version.spec, '$.schedule.interval') IS NOT NULL
    OR json_extract(job_version.spec, '$.schedule.by_mode') IS NOT NULL)
  AND json_extract(job_version.spec, '$.schedule.anchor') <> 'fixed'

-- name: job_version_insert
-- A span begins where the one before it ended, also when the clock stepped back.
INSERT INTO job_version (job_id, job, version, spec, digest, schedules, paused, tzdata, since)
VALUES (:job_id, (SELECT seq FROM job WHERE id = :job_id), :version, :spec, :digest, :schedules, :paused, :tzdata,
    max(:now, coalesce((SELECT until FROM job_version WHERE job_id = :job_id AND version = :version - 1), :now)))

-- name: job_insert
INSERT INTO job (seq, id, name, source, version, enabled, created_at, updated_at, next_for, next_at, ledger_from)
SELECT coalesce(max(seq), 0) + 1, :id, :name, :source, 1, :enabled, :now, :now, :next_for, :next_at, :now FROM job

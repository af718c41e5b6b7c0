-- Jobs whose next instant was counted from their last run (R-26).
SELECT job.id FROM job JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
WHERE (json_extract(job_version.spec, '$.schedule.interval') IS NOT NULL
    OR json_extract(job_version.spec, '$.schedule.by_mode') IS NOT NULL)
  AND json_extract(job_version.spec, '$.schedule.anchor') <> 'fixed'

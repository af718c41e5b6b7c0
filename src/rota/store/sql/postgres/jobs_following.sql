-- Jobs whose next instant was counted from their last run (R-26).
SELECT job.id FROM job JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
WHERE (CAST(job_version.spec AS json) #>> '{schedule,interval}' IS NOT NULL
    OR CAST(job_version.spec AS json) #>> '{schedule,by_mode}' IS NOT NULL)
  AND CAST(job_version.spec AS json) #>> '{schedule,anchor}' <> 'fixed'

SELECT version, spec, digest, schedules, paused, tzdata, since, until FROM job_version WHERE job_id = :job_id ORDER BY version

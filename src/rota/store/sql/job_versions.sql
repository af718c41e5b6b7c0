SELECT version, spec, schedules, paused, since, until FROM job_version
WHERE job_id = :job_id AND version < :below ORDER BY version DESC LIMIT :limit

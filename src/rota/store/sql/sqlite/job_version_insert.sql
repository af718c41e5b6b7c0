INSERT INTO job_version (job_id, version, spec, digest, schedules, tzdata, since)
VALUES (:job_id, :version, :spec, :digest, :schedules, :tzdata, :now)

-- A span begins where the one before it ended, also when the clock stepped back.
INSERT INTO job_version (job_id, version, spec, digest, schedules, paused, tzdata, since)
VALUES (:job_id, :version, :spec, :digest, :schedules, :paused, :tzdata,
    greatest(:now, (SELECT until FROM job_version WHERE job_id = :job_id AND version = CAST(:version AS bigint) - 1)))

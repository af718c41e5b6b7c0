-- Never before its beginning: the clock may have stepped back.
UPDATE job_version SET until = max(since, :now) WHERE job_id = :job_id AND version = :version AND until IS NULL

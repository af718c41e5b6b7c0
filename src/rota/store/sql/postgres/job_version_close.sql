-- Never before its beginning, nor before the last instant that has its row: the clock may have stepped back.
UPDATE job_version SET until = greatest(since, :now, :accounted_to) WHERE job_id = :job_id AND version = :version AND until IS NULL

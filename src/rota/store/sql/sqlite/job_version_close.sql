UPDATE job_version SET until = :now WHERE job_id = :job_id AND version = :version AND until IS NULL

SELECT spec FROM job_version WHERE job_id = :job_id AND version = :version

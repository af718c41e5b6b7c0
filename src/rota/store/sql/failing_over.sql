DELETE FROM failing WHERE job_id = :job_id AND target = :target

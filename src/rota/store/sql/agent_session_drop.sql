DELETE FROM agent_session WHERE job_id = :job_id AND session_id = :session_id

SELECT session_id, usd, tokens_in, tokens_out FROM agent_session WHERE job_id = :job_id AND adapter = :adapter

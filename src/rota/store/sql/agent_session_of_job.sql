SELECT adapter, session_id, usd, tokens_in, tokens_out, at FROM agent_session WHERE job_id = :job_id

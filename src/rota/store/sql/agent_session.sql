SELECT session_id, usd, tokens_in, tokens_out, tokens_cached,
    (SELECT execution.worker_id FROM execution WHERE execution.run_id = agent_session.run_id OR execution.id = agent_session.run_id)
FROM agent_session WHERE job_id = :job_id AND adapter = :adapter

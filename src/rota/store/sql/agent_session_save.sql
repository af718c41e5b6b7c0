INSERT INTO agent_session (job_id, adapter, session_id, run_id, usd, tokens_in, tokens_out, tokens_cached, at)
VALUES (:job_id, :adapter, :session_id, :run_id, :usd, :tokens_in, :tokens_out, :tokens_cached, :at)
ON CONFLICT (job_id) DO UPDATE SET adapter = excluded.adapter, session_id = excluded.session_id, run_id = excluded.run_id,
    usd = excluded.usd, tokens_in = excluded.tokens_in, tokens_out = excluded.tokens_out,
    tokens_cached = excluded.tokens_cached, at = excluded.at

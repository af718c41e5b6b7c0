SELECT count(*) FROM job
WHERE made_by = :maker AND id IS DISTINCT FROM :but AND retired_at IS NULL AND used_up_at IS NULL AND enabled = 1 AND expires_at > :now

SELECT job.name, run.number, run.waiting_for FROM run JOIN job ON job.id = run.job_id
WHERE run.waiting_for IS NOT NULL AND (CAST(:jobs AS text) IS NULL OR run.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))) AND CASE run.waiting_for
    WHEN 'condition' THEN run.not_before IS NULL
    WHEN 'backoff' THEN run.not_before IS NULL OR run.trigger <> 'retry'
    WHEN 'predecessor' THEN CASE WHEN run.group_id IS NOT NULL
        -- A member is let go by the end of another one, so some member must be on its way.
        THEN NOT EXISTS (SELECT 1 FROM run other WHERE other.group_id = run.group_id AND other.finished_at IS NULL
            AND other.waiting_for IS DISTINCT FROM 'predecessor')
        ELSE NOT EXISTS (SELECT 1 FROM run first WHERE first.id = run.predecessor_id AND first.job_id = run.job_id AND first.finished_at IS NULL
            AND (SELECT number FROM run root WHERE root.id = coalesce(first.chain_id, first.id)) < run.number) END
    WHEN 'replaced_run' THEN NOT EXISTS (SELECT 1 FROM run first WHERE first.job_id = run.job_id AND first.id < run.id
        AND first.finished_at IS NULL)
    WHEN 'budget' THEN run.not_before IS NULL
    -- A poll comes by its schedule, or is on its way; in a mode without polls only the latter counts.
    WHEN 'poll' THEN NOT EXISTS (SELECT 1 FROM job poll WHERE poll.name = 'rota/poll' AND poll.retired_at IS NULL AND (
        poll.next_at IS NOT NULL OR poll.paused_at IS NOT NULL
        OR EXISTS (SELECT 1 FROM run polling WHERE polling.job_id = poll.id AND polling.finished_at IS NULL)))
    ELSE true END
LIMIT :limit

UPDATE job SET paused_until = :until, pause_reason = :reason WHERE id = :id AND paused_at IS NOT NULL

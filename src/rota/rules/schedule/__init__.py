"""When a job is due: cron, intervals, blackouts, cursors and plans."""

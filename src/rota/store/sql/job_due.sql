-- Whether a job's next instant has come and nobody else is at it.
SELECT name FROM job WHERE id = :id AND next_at <= :now
-- when writing: FOR NO KEY UPDATE SKIP LOCKED

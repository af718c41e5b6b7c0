-- name: question_insert
INSERT INTO question (subject, job_id, run_id, text, digest, choices, allowed, asked_by, asked_at, expires_at, fallback, call, waits)
VALUES (:subject, :job_id, :run_id, :text, :digest, :choices, :allowed, :asked_by, :asked_at, :expires_at, :fallback, :call, :waits)
RETURNING number

-- name: question_by_number
SELECT * FROM question_now WHERE number = :number

-- name: questions_newest
-- `state` null: all of them; `below` is the number of the last one of the previous page.
SELECT * FROM question_now
WHERE number < :below AND (CAST(:state AS text) IS NULL OR state = :state) AND (CAST(:job_id AS text) IS NULL OR job_id = :job_id)
ORDER BY number DESC LIMIT :limit

-- name: questions_open
SELECT * FROM question_now
WHERE state = 'open' ORDER BY number LIMIT :limit

-- name: questions_open_count
SELECT count(*), coalesce(sum(CASE WHEN job_id = :job_id THEN 1 ELSE 0 END), 0) FROM question WHERE state = 'open'

-- name: questions_of_job
-- The open questions of a job, and the ended ones whose run has not ended.
SELECT * FROM question_now
WHERE job_id = :job_id AND (state = 'open' OR waits = 1) ORDER BY number

-- name: questions_of_run
SELECT * FROM question_now
WHERE run_id = :run_id ORDER BY number

-- name: questions_for_run
SELECT * FROM question_now
WHERE used_by = :run_id ORDER BY number

-- name: questions_unread
-- The answers that no run has got: those of questions that no run waits for.
SELECT * FROM question_now
WHERE job_id = :job_id AND answer IS NOT NULL AND used_by IS NULL AND waits = 0 AND call IS NULL AND subject <> 'proposal' ORDER BY number

-- name: question_end
-- The first end wins: the row changes once.
UPDATE question SET state = :state, answer = :answer, answered_by = :answered_by, door = :door, ended_at = :now, why = :why
WHERE number = :number AND state = 'open'

-- name: question_pass_on
UPDATE question SET waits = 0, used_by = :run_id WHERE number = :number AND used_by IS NULL

-- name: question_leave
UPDATE question SET waits = 0 WHERE number = :number AND waits = 1

-- name: questions_due
SELECT * FROM question_now
WHERE state = 'open' AND expires_at IS NOT NULL AND expires_at <= :now ORDER BY expires_at LIMIT :limit

-- name: question_next_due
SELECT min(expires_at) FROM question WHERE state = 'open' AND expires_at IS NOT NULL

-- name: questions_prune
DELETE FROM question WHERE number IN (SELECT number FROM question WHERE ended_at < :before AND waits = 0 ORDER BY ended_at LIMIT :limit)

-- name: questions_old
SELECT 1 FROM question WHERE ended_at < :before AND waits = 0 LIMIT 1

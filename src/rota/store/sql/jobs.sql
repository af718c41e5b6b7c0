-- name: job_by_id
SELECT job.*, job_version.spec AS spec
FROM job JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
WHERE job.id = :id
{{FOR NO KEY UPDATE OF job}}

-- name: job_by_name
SELECT job.*, job_version.spec AS spec
FROM job JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
WHERE job.name = :name
{{FOR NO KEY UPDATE OF job}}

-- name: jobs_all
SELECT job.*, job_version.spec AS spec
FROM job JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
ORDER BY job.name

-- name: job_rename
UPDATE job SET name = :name WHERE id = :id AND retired_at IS NOT NULL

-- name: job_pause_change
UPDATE job SET paused_until = :until, pause_reason = :reason WHERE id = :id AND paused_at IS NOT NULL

-- name: job_names
SELECT name FROM job WHERE retired_at IS NULL ORDER BY name

-- name: jobs_due
SELECT id FROM job WHERE next_at <= :now ORDER BY next_at, id LIMIT :limit

-- name: job_due
-- Whether a job is due and not locked by another transaction.
SELECT name FROM job WHERE id = :id AND next_at <= :now
{{FOR NO KEY UPDATE SKIP LOCKED}}

-- name: job_next_due
SELECT min(next_at) FROM job WHERE next_at IS NOT NULL

-- name: job_next_wake
SELECT min(job.next_at) FROM waking JOIN job ON job.id = waking.job_id WHERE job.next_at IS NOT NULL

-- name: look_save
INSERT INTO next_look (job_id, run, author, why, after_ms, asked_at, next_for)
VALUES (:job_id, :run, :author, :why, :after_ms, :asked_at, :next_for)
ON CONFLICT (job_id) DO UPDATE SET run = excluded.run, author = excluded.author, why = excluded.why,
    after_ms = excluded.after_ms, asked_at = excluded.asked_at, next_for = excluded.next_for

-- name: look_of
SELECT run, author, why, after_ms, asked_at, next_for FROM next_look WHERE job_id = :job_id

-- name: look_forget
DELETE FROM next_look WHERE job_id = :job_id

-- name: job_next_due_but
SELECT next_at FROM job WHERE next_at IS NOT NULL AND name <> :name ORDER BY next_at LIMIT 1

-- name: jobs_not_booted
-- Jobs at boot that have not fired in this boot and were not created in it. Other machines have other boots.
SELECT id FROM job WHERE booted <> :boot AND enabled = 1 AND retired_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM run WHERE run.job = job.seq AND run.slot_key = :boot) ORDER BY name

-- name: job_set_booted
UPDATE job SET booted = :boot WHERE id = :id

-- name: job_version_spec
SELECT spec FROM job_version WHERE job_id = :job_id AND version = :version

-- name: job_version_digest
SELECT digest FROM job_version WHERE job_id = :job_id AND version = :version

-- name: job_versions
SELECT version, spec, schedules, paused, since, until FROM job_version
WHERE job_id = :job_id AND version < :below ORDER BY version DESC LIMIT :limit

-- name: jobs_failing
-- Jobs whose newest executed run failed.
SELECT job.id FROM job
WHERE job.retired_at IS NULL
  AND (SELECT max(finished_at) FROM ended WHERE ended.job = job.seq AND ended.status = 5)
    > coalesce((SELECT max(finished_at) FROM ended WHERE ended.job = job.seq AND ended.status = 4), 0)

-- name: job_change
UPDATE job SET version = :version, source = :source, enabled = :enabled, updated_at = :now, retired_at = :retired_at,
    used_up_at = :used_up_at, next_for = :next_for, next_at = :next_at, held_for = :held_for
WHERE id = :id AND version = :expected

-- name: jobs_paused
SELECT name, paused_at, paused_until, pause_reason FROM job WHERE paused_at IS NOT NULL AND retired_at IS NULL ORDER BY name

-- name: jobs_pause_over
SELECT id FROM job WHERE paused_until <= :now ORDER BY paused_until LIMIT :limit

-- name: job_next_pause_end
SELECT min(paused_until) FROM job WHERE paused_until IS NOT NULL

-- name: job_pause
UPDATE job SET version = :version, updated_at = :now, paused_at = :now, paused_until = :until, pause_reason = :reason,
    held_for = next_for, next_for = NULL, next_at = NULL
WHERE id = :id AND version = :expected AND paused_at IS NULL

-- name: job_shift
UPDATE job SET next_for = next_for - :back, next_at = next_at - :back, anchored_at = anchored_at - :back, held_for = held_for - :back
WHERE id = :id

-- name: jobs_backing_off_shift
UPDATE job SET backing_off_until = backing_off_until - :back WHERE backing_off_until IS NOT NULL

-- name: job_resume
UPDATE job SET version = :version, updated_at = :now, paused_at = NULL, paused_until = NULL, pause_reason = NULL,
    held_for = NULL, next_for = :next_for, next_at = :next_at, anchored_at = :anchored_at, fire_number = :fire_number
WHERE id = :id AND version = :expected AND paused_at IS NOT NULL

-- name: job_move_ledger
UPDATE job SET ledger_from = :ledger_from WHERE id = :id AND ledger_from < :ledger_from

-- name: job_move_cursor
-- Nothing changes when another process moved the cursor or changed the job first.
UPDATE job SET next_for = :next_for, next_at = :next_at, anchored_at = :anchored_at, used_up_at = :used_up_at, fire_number = :fire_number
WHERE id = :id AND version = :version AND next_for IS NOT DISTINCT FROM :expected

-- name: job_hold
UPDATE job SET held_for = :held_for, anchored_at = :anchored_at, used_up_at = :used_up_at, fire_number = :fire_number
WHERE id = :id AND version = :version AND paused_at IS NOT NULL

-- name: job_standing
-- What the end of a run affects in its job: a count of failures, runs that wait, notifications, the shared poll, questions.
SELECT failures,
    EXISTS (SELECT 1 FROM live WHERE live.job = job.seq AND live.state = 0 AND live.waiting_for IN ('predecessor', 'replaced_run')),
    EXISTS (SELECT 1 FROM notifying WHERE job_id = :id) OR EXISTS (SELECT 1 FROM pinging WHERE job_id = :id), name = 'rota/poll',
    EXISTS (SELECT 1 FROM question WHERE question.job_id = :id AND (question.state = 'open' OR question.waits = 1
        OR (question.used_by IS NULL AND question.answer IS NOT NULL AND question.call IS NULL AND question.subject <> 'proposal')))
FROM job WHERE id = :id

-- name: job_count_failure
UPDATE job SET failures = :failures, backing_off_until = :backing_off_until WHERE id = :id

-- name: job_count_run
UPDATE job SET run_number = run_number + 1 WHERE id = :id RETURNING run_number

-- name: job_count_runs
UPDATE job SET run_number = run_number + :count WHERE id = :id RETURNING run_number

-- name: job_state
SELECT state FROM job WHERE id = :id

-- name: job_save_state
UPDATE job SET state = :state WHERE id = :id

-- name: job_set_made
UPDATE job SET made_by = :made_by, made_at = :made_at, made_by_run = :run_id, depth = :depth, expires_at = :expires_at
WHERE id = :id

-- name: job_set_provisional
UPDATE job SET provisional_at = :provisional_at WHERE id = :id

-- name: job_set_approved
UPDATE job SET approved = :approved, approved_at = :approved_at WHERE id = :id

-- name: job_sources
SELECT DISTINCT source FROM job ORDER BY source

-- name: job_move_source
UPDATE job SET source = :after WHERE source = :before

-- name: making_forget
DELETE FROM making WHERE maker = :maker AND kind = :kind AND at < :before

-- name: making_insert
INSERT INTO making (id, maker, kind, at) VALUES (:id, :maker, :kind, :at)

-- name: making_count
SELECT count(*) FROM making WHERE maker = :maker AND kind = :kind AND at >= :since

-- name: jobs_made_active
SELECT count(*) FROM job
WHERE made_by = :maker AND id IS DISTINCT FROM :but AND retired_at IS NULL AND used_up_at IS NULL AND enabled = 1 AND expires_at > :now

-- name: jobs_expired
SELECT id FROM job WHERE expires_at <= :now AND retired_at IS NULL

-- name: jobs_provisional
SELECT job.*, job_version.spec AS spec
FROM job JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
WHERE job.provisional_at IS NOT NULL AND job.retired_at IS NULL
ORDER BY job.provisional_at, job.id

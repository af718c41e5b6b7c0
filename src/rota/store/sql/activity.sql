-- name: meta_get
SELECT value FROM meta WHERE key = :key

-- name: activity_touch
INSERT INTO activity (id, at, what) VALUES (1, :now, :what)
ON CONFLICT (id) DO UPDATE SET at = excluded.at, what = excluded.what

-- name: activity_last
SELECT at, what FROM activity

-- name: meta_set
INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: jobs_modes
-- The modes of planned jobs with intervals by mode, by their quiet hours.
SELECT DISTINCT mode, quiet FROM job WHERE mode IS NOT NULL

-- name: jobs_adaptive
-- The number of jobs with intervals by mode, by their dormant quiet hours.
SELECT quiet, COUNT(*) FROM job WHERE mode IS NOT NULL AND retired_at IS NULL GROUP BY quiet ORDER BY quiet

-- name: jobs_of_mode
SELECT id FROM job WHERE mode = :mode AND quiet = :quiet

-- name: job_set_mode
UPDATE job SET mode = :mode, quiet = :quiet WHERE id = :id

-- name: poll_last
SELECT run_id, at, ok, detail, good_at, data FROM poll

-- name: poll_store
-- A failed poll leaves the data of the last good one.
INSERT INTO poll (id, run_id, at, ok, detail, good_at, data) VALUES (1, :run_id, :at, :ok, :detail, :good_at, :data)
ON CONFLICT (id) DO UPDATE SET run_id = excluded.run_id, at = excluded.at, ok = excluded.ok, detail = excluded.detail,
    good_at = coalesce(excluded.good_at, poll.good_at), data = coalesce(excluded.data, poll.data)

-- name: runs_polling
SELECT run.id FROM live JOIN run ON run.seq = live.run WHERE live.waiting_for = 'poll'

-- name: job_suggest
UPDATE job SET suggested = :suggested WHERE id = :id

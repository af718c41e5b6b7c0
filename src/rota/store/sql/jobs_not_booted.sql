-- Jobs at boot that have not run for this boot, and were not made in it (R-05). Other machines have other boots: the row tells.
SELECT id FROM job WHERE booted <> :boot AND enabled = 1 AND retired_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM run WHERE run.job_id = job.id AND run.slot_key = :boot) ORDER BY name

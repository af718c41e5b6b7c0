SELECT direct_wait.*, job.name AS job, lane.key AS lane
FROM direct_wait JOIN lane ON lane.id = direct_wait.lane_id LEFT JOIN job ON job.id = direct_wait.job_id
WHERE direct_wait.id = :id
-- when writing: FOR NO KEY UPDATE OF direct_wait

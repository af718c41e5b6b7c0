-- Who waits and who is about to start, in the order in which they came.
SELECT direct_wait.*, job.name AS job, lane.key AS lane
FROM direct_wait JOIN lane ON lane.id = direct_wait.lane_id LEFT JOIN job ON job.id = direct_wait.job_id
ORDER BY direct_wait.turn
-- when writing: FOR NO KEY UPDATE OF direct_wait

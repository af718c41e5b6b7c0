SELECT job.name, count(*), sum(coalesce(entry.settled, entry.reserved)), sum(entry.settled IS NULL),
    sum(iif(entry.settled IS NOT NULL AND NOT entry.measured, entry.settled, 0))
FROM budget_entry AS entry JOIN job ON job.id = entry.job_id
WHERE entry.window_id = :window_id GROUP BY job.id ORDER BY 3 DESC, 1 LIMIT :limit

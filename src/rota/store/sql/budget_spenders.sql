SELECT job.name, count(*), sum(coalesce(entry.settled, entry.reserved)), count(*) - count(entry.settled),
    sum(CASE WHEN entry.settled IS NOT NULL AND entry.measured = 0 THEN entry.settled ELSE 0 END)
FROM budget_entry AS entry JOIN job ON job.id = entry.job_id
WHERE entry.window_id = :window_id GROUP BY job.id ORDER BY 3 DESC, 1 LIMIT :limit

-- R-03: an unfinished run stands in the lane of its definition; those of groups in lane 0.
SELECT * FROM (
    SELECT job.name, min(run.number) AS number, CASE run.lane_id WHEN 0 THEN 'groups' ELSE lane.key END AS found,
        CASE job_version.spec ->> '$.work.kind' WHEN 'group' THEN 'groups' ELSE (
            SELECT coalesce(group_concat((draw.value ->> 'pool') || '=' || (draw.value ->> 'cost'), ',' ORDER BY draw.value ->> 'pool'), '')
            FROM json_each(job_version.spec, '$.pools') AS draw) END AS wanted
    FROM run JOIN job ON job.id = run.job_id LEFT JOIN lane ON lane.id = run.lane_id
    JOIN job_version ON job_version.job_id = run.job_id AND job_version.version = run.version
    WHERE run.finished_at IS NULL AND (:jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs)))
    GROUP BY run.job_id, run.version, run.lane_id
) WHERE found IS NOT wanted LIMIT :limit

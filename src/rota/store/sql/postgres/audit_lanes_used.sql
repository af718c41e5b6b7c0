-- R-03: an unfinished run stands in the lane of its definition; those of groups in lane 0.
SELECT * FROM (
    SELECT job.name, used.number, CASE used.lane_id WHEN 0 THEN 'groups' ELSE lane.key END AS found,
        CASE CAST(job_version.spec AS json) #>> '{work,kind}' WHEN 'group' THEN 'groups' ELSE (
            SELECT coalesce(string_agg((draw ->> 'pool') || '=' || (draw ->> 'cost'), ',' ORDER BY draw ->> 'pool' COLLATE "C"), '')
            FROM json_array_elements(CAST(job_version.spec AS json) -> 'pools') AS draw) END AS wanted
    FROM (
        SELECT job_id, version, lane_id, min(number) AS number FROM run
        WHERE finished_at IS NULL
          AND (CAST(:jobs AS text) IS NULL OR job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json)))))
        GROUP BY job_id, version, lane_id) AS used
    JOIN job ON job.id = used.job_id LEFT JOIN lane ON lane.id = used.lane_id
    JOIN job_version ON job_version.job_id = used.job_id AND job_version.version = used.version
) AS compared WHERE found IS DISTINCT FROM wanted LIMIT :limit

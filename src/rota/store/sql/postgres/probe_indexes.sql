-- The indexes that a round needs, by name along the search path: a missing one is met at the start, not at the first fire.
SELECT
    CAST(CAST('job_due' AS regclass) AS bigint),
    CAST(CAST('job_pause_ends' AS regclass) AS bigint),
    CAST(CAST('run_ready' AS regclass) AS bigint),
    CAST(CAST('run_order' AS regclass) AS bigint),
    CAST(CAST('run_released' AS regclass) AS bigint),
    CAST(CAST('run_expiring' AS regclass) AS bigint),
    CAST(CAST('run_unfinished' AS regclass) AS bigint),
    CAST(CAST('run_fire' AS regclass) AS bigint),
    CAST(CAST('run_slot' AS regclass) AS bigint),
    CAST(CAST('execution_run_id_key' AS regclass) AS bigint),
    CAST(CAST('process_open' AS regclass) AS bigint)

-- name: audit_schema
-- The whole schema as the server describes it. Another version may describe it otherwise, so the version is included.
-- Parts of a table have its name: other programs may have tables here.
SELECT 'server' AS type, CAST(CAST(current_setting('server_version_num') AS bigint) / 10000 AS text) AS name, '' AS sql
UNION ALL
SELECT 'table', CAST(class.relname AS text), (
    SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), ordering.collname, CASE WHEN attnotnull THEN 'NOT NULL' END,
        nullif(attidentity, ''), pg_get_expr(adbin, adrelid, true)), ', ' ORDER BY attnum)
    FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum LEFT JOIN pg_collation AS ordering ON ordering.oid = attcollation
    WHERE attrelid = class.oid AND attnum > 0 AND NOT attisdropped)
FROM pg_class AS class
WHERE class.relkind = 'r' AND class.relnamespace = CAST(current_schema() AS regnamespace)
UNION ALL
SELECT 'constraint', class.relname || '.' || conname, pg_get_constraintdef(pg_constraint.oid, true)
FROM pg_constraint JOIN pg_class AS class ON class.oid = conrelid
WHERE class.relnamespace = CAST(current_schema() AS regnamespace) AND contype IN ('c', 'f', 'p', 'u', 'x')
UNION ALL
SELECT 'index', class.relname || '.' || pointing.relname, pg_get_indexdef(pointing.oid, 0, true)
FROM pg_index JOIN pg_class AS class ON class.oid = indrelid JOIN pg_class AS pointing ON pointing.oid = indexrelid
WHERE class.relnamespace = CAST(current_schema() AS regnamespace)
UNION ALL
SELECT 'trigger', class.relname || '.' || tgname, concat_ws(' ', pg_get_triggerdef(pg_trigger.oid, true), tgenabled)
FROM pg_trigger JOIN pg_class AS class ON class.oid = tgrelid
WHERE NOT tgisinternal AND class.relnamespace = CAST(current_schema() AS regnamespace)
UNION ALL
SELECT 'function', proname, prosrc FROM pg_proc WHERE pronamespace = CAST(current_schema() AS regnamespace)

-- name: probe_indexes
-- The indexes that a round needs, by name along the search path: a missing one is met at the start, not at the first fire.
SELECT
    CAST(CAST('job_due' AS regclass) AS bigint),
    CAST(CAST('job_pause_ends' AS regclass) AS bigint),
    CAST(CAST('live_ready' AS regclass) AS bigint),
    CAST(CAST('live_order' AS regclass) AS bigint),
    CAST(CAST('live_released' AS regclass) AS bigint),
    CAST(CAST('live_expiring' AS regclass) AS bigint),
    CAST(CAST('live_job' AS regclass) AS bigint),
    CAST(CAST('run_fire' AS regclass) AS bigint),
    CAST(CAST('live_slot' AS regclass) AS bigint),
    CAST(CAST('call_slot' AS regclass) AS bigint),
    CAST(CAST('process_open' AS regclass) AS bigint)

-- name: database_version
SELECT current_setting('server_version')

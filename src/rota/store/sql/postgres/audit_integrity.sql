-- What the server says of itself: only an extension reads all pages and indexes, so nobody is told that they were.
SELECT kind, text FROM (
    SELECT 'violation' AS kind, 'the index ' || class.relname || ' is not valid' AS text
    FROM pg_index JOIN pg_class AS class ON class.oid = pg_index.indexrelid
    WHERE class.relnamespace = CAST(current_schema() AS regnamespace) AND NOT (pg_index.indisvalid AND pg_index.indisready AND pg_index.indislive)
    UNION ALL
    SELECT 'violation', 'pages of the database failed their checksum ' || checksum_failures || ' times' FROM pg_stat_database
    WHERE datname = current_database() AND checksum_failures > 0
    UNION ALL
    SELECT 'note', 'pages and indexes were not read one by one: PostgreSQL checks the checksum of each page that it reads, `pg_amcheck` looks at all'
    WHERE current_setting('data_checksums') = 'on'
    UNION ALL
    SELECT 'note', 'pages and indexes were not read one by one, and this server keeps no checksums of pages: `pg_amcheck` looks at all'
    WHERE current_setting('data_checksums') <> 'on'
) AS told LIMIT :limit

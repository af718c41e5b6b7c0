-- What starts and ends by the dozen costs less here.

-- A run is written three times at least, and each time has entries of its own in these. Where a page has no room for them next to the
-- first, it is searched for entries that nobody needs any more, or split: a tenth of the server's time. So every page begins half empty.
ALTER INDEX run_pkey SET (fillfactor = 50);
ALTER INDEX run_number SET (fillfactor = 50);
ALTER INDEX run_unfinished SET (fillfactor = 50);

-- The change feed has a row for all runs of a statement, fifty at the most, so that it is never stored apart: their identifiers, with
-- spaces between. A row for each run was a twelfth of the server's time.
CREATE OR REPLACE FUNCTION note_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holder_is_known('run', worker_id, epoch) FROM (
        SELECT DISTINCT worker_id, epoch FROM moved WHERE worker_id IS NOT NULL OR epoch IS NOT NULL) AS held;
    INSERT INTO change (kind, subject)
    SELECT 'run', string_agg(told.id, ' ') FROM (
        SELECT after.id, (row_number() OVER () - 1) / 50 AS part FROM moved AS after JOIN standing AS before ON before.id = after.id
        WHERE after.status <> before.status OR after.waiting_for IS DISTINCT FROM before.waiting_for
           OR after.cancel_requested_at IS DISTINCT FROM before.cancel_requested_at OR after.priority <> before.priority
           OR after.params <> before.params) AS told
    GROUP BY told.part;
    RETURN NULL;
END $$;

-- A row may tell of fifty, so fewer of them are kept: the newest 20,000.
CREATE OR REPLACE FUNCTION change_is_bounded() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM change WHERE seq IN (
        SELECT seq FROM change WHERE seq < (SELECT seq FROM change ORDER BY seq DESC OFFSET 20000 LIMIT 1) FOR UPDATE SKIP LOCKED);
    RETURN NULL;
END $$;

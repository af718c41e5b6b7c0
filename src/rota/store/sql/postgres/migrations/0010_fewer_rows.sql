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

-- INV-003 for executions. A slot belongs to the run that is in it (run_slot), or to the direct call that somebody carries (direct_hold).
-- The execution of a run names the slot that its run has: so no two have one. With an index of its own over those that are unfinished,
-- the end of an execution would need new entries in all of its indexes; now it needs none, if its page has room.
DROP INDEX execution_slot;
ALTER TABLE execution SET (fillfactor = 50);

CREATE FUNCTION refuse_execution(run TEXT) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM run AS known WHERE known.id = run) THEN
        PERFORM refuse_key('execution', 'run');
    END IF;
    RAISE EXCEPTION USING MESSAGE = 'INV-003', ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE OR REPLACE FUNCTION execution_made_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holder_is_known('execution', worker_id, epoch) FROM (SELECT DISTINCT worker_id, epoch FROM made) AS held;
    PERFORM refuse_key('execution', 'job') FROM (SELECT DISTINCT job_id FROM made WHERE job_id IS NOT NULL) AS named
    WHERE (SELECT job.id FROM job WHERE job.id = named.job_id) IS NULL;
    PERFORM refuse_execution(run_id) FROM made
    WHERE run_id IS NOT NULL AND (
        SELECT made.finished_at IS NOT NULL
            OR (run.status IN ('DISPATCHED', 'RUNNING') AND run.worker_id = made.worker_id AND run.slot = made.slot)
        FROM run WHERE run.id = made.run_id) IS NOT TRUE;
    IF EXISTS (SELECT 1 FROM direct_hold JOIN execution AS called ON called.id = direct_hold.execution_id
        JOIN made ON made.worker_id = called.worker_id AND made.slot = called.slot
        WHERE called.finished_at IS NULL AND made.finished_at IS NULL AND made.run_id IS NOT NULL) THEN
        RAISE EXCEPTION USING MESSAGE = 'INV-003', ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;

-- Who gives out slots holds the worker's row.
CREATE FUNCTION call_in_slot(worker TEXT, number BIGINT) RETURNS BOOLEAN LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT 1 FROM direct_hold JOIN execution ON execution.id = direct_hold.execution_id
        WHERE execution.worker_id = worker AND execution.slot = number AND execution.finished_at IS NULL)
$$;

CREATE OR REPLACE FUNCTION inv_003_dispatched() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM run WHERE worker_id = NEW.worker_id AND slot = NEW.slot AND status IN ('DISPATCHED', 'RUNNING'))
        OR call_in_slot(NEW.worker_id, NEW.slot) THEN
        RAISE EXCEPTION USING MESSAGE = 'INV-003', ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION inv_003_direct() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.finished_at IS NULL AND (
        EXISTS (SELECT 1 FROM run WHERE worker_id = NEW.worker_id AND slot = NEW.slot AND status IN ('DISPATCHED', 'RUNNING'))
        OR call_in_slot(NEW.worker_id, NEW.slot)) THEN
        RAISE EXCEPTION USING MESSAGE = 'INV-003', ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

-- What every start and every end writes points at a worker, a process, a job and a run. A foreign key looks each of them up, and locks
-- it, for every row: a fifth of the server's time. Here a whole statement is looked at instead. Nobody who is pointed at goes away
-- meanwhile: who claims holds worker and process, and deleting is refused on the other side.

ALTER TABLE run DROP CONSTRAINT run_worker_id_fkey, DROP CONSTRAINT run_epoch_fkey;
ALTER TABLE execution DROP CONSTRAINT execution_run_id_fkey, DROP CONSTRAINT execution_job_id_fkey,
    DROP CONSTRAINT execution_worker_id_fkey, DROP CONSTRAINT execution_epoch_fkey;

CREATE FUNCTION refuse_key(child TEXT, parent TEXT) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING MESSAGE = format('%s names a %s that is not there', child, parent), ERRCODE = 'foreign_key_violation';
END $$;

CREATE FUNCTION holder_is_known(child TEXT, worker TEXT, process BIGINT) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF worker IS NOT NULL AND NOT EXISTS (SELECT 1 FROM worker AS known WHERE known.id = worker) THEN
        PERFORM refuse_key(child, 'worker');
    END IF;
    IF process IS NOT NULL AND NOT EXISTS (SELECT 1 FROM process AS known WHERE known.epoch = process) THEN
        PERFORM refuse_key(child, 'process');
    END IF;
END $$;

CREATE FUNCTION run_made_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holder_is_known('run', NEW.worker_id, NEW.epoch);
    RETURN NULL;
END $$;

CREATE TRIGGER run_made_keys AFTER INSERT ON run
FOR EACH ROW WHEN (NEW.worker_id IS NOT NULL OR NEW.epoch IS NOT NULL) EXECUTE FUNCTION run_made_keys();

-- The function of the trigger run_moved.
CREATE OR REPLACE FUNCTION note_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holder_is_known('run', worker_id, epoch) FROM (
        SELECT DISTINCT worker_id, epoch FROM moved WHERE worker_id IS NOT NULL OR epoch IS NOT NULL) AS held;
    INSERT INTO change (kind, subject)
    SELECT 'run', after.id FROM moved AS after JOIN standing AS before ON before.id = after.id
    WHERE after.status <> before.status OR after.waiting_for IS DISTINCT FROM before.waiting_for
       OR after.cancel_requested_at IS DISTINCT FROM before.cancel_requested_at OR after.priority <> before.priority
       OR after.params <> before.params;
    RETURN NULL;
END $$;

-- (SELECT …) IS NULL, not EXISTS: each is looked up by its identifier, however many runs there are.
CREATE FUNCTION execution_made_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holder_is_known('execution', worker_id, epoch) FROM (SELECT DISTINCT worker_id, epoch FROM made) AS held;
    PERFORM refuse_key('execution', 'job') FROM (SELECT DISTINCT job_id FROM made WHERE job_id IS NOT NULL) AS named
    WHERE (SELECT job.id FROM job WHERE job.id = named.job_id) IS NULL;
    PERFORM refuse_key('execution', 'run') FROM made
    WHERE run_id IS NOT NULL AND (SELECT run.id FROM run WHERE run.id = made.run_id) IS NULL;
    RETURN NULL;
END $$;

CREATE TRIGGER execution_made_keys AFTER INSERT ON execution REFERENCING NEW TABLE AS made
FOR EACH STATEMENT EXECUTE FUNCTION execution_made_keys();

-- An execution never changes whom it names: only its end is written (INV-002), for which two comparisons are enough.
DROP TRIGGER inv_002 ON execution;

CREATE TRIGGER inv_002 BEFORE UPDATE OF id, run_id, job_id, version, lane_id, params, caller, worker_id, slot, epoch, boot_id, pid,
    pid_start, started_at ON execution
FOR EACH ROW WHEN (NEW.id IS DISTINCT FROM OLD.id
  OR NEW.run_id IS DISTINCT FROM OLD.run_id
  OR NEW.job_id IS DISTINCT FROM OLD.job_id
  OR NEW.version IS DISTINCT FROM OLD.version
  OR NEW.lane_id IS DISTINCT FROM OLD.lane_id
  OR NEW.params IS DISTINCT FROM OLD.params
  OR NEW.caller IS DISTINCT FROM OLD.caller
  OR NEW.worker_id IS DISTINCT FROM OLD.worker_id
  OR NEW.slot IS DISTINCT FROM OLD.slot
  OR NEW.epoch IS DISTINCT FROM OLD.epoch
  OR NEW.boot_id IS DISTINCT FROM OLD.boot_id
  OR NEW.pid IS DISTINCT FROM OLD.pid
  OR NEW.pid_start IS DISTINCT FROM OLD.pid_start
  OR NEW.started_at IS DISTINCT FROM OLD.started_at)
EXECUTE FUNCTION refuse('INV-002');

CREATE TRIGGER inv_002_final BEFORE UPDATE ON execution
FOR EACH ROW WHEN (OLD.finished_at IS NOT NULL) EXECUTE FUNCTION refuse('INV-002');

-- The other side. A row is locked before its trigger looks, and the trigger sees what was committed until then.
CREATE FUNCTION refuse_named() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    named BOOLEAN;
BEGIN
    CASE TG_TABLE_NAME
        WHEN 'run' THEN
            named := EXISTS (SELECT 1 FROM execution WHERE run_id = OLD.id);
        WHEN 'job' THEN
            named := EXISTS (SELECT 1 FROM execution WHERE job_id = OLD.id);
        WHEN 'worker' THEN
            named := EXISTS (SELECT 1 FROM run WHERE worker_id = OLD.id) OR EXISTS (SELECT 1 FROM execution WHERE worker_id = OLD.id);
        WHEN 'process' THEN
            named := EXISTS (SELECT 1 FROM run WHERE epoch = OLD.epoch) OR EXISTS (SELECT 1 FROM execution WHERE epoch = OLD.epoch);
    END CASE;
    IF named THEN
        RAISE EXCEPTION USING MESSAGE = format('a %s that is named elsewhere stays', TG_TABLE_NAME), ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;

CREATE TRIGGER run_stays BEFORE DELETE ON run FOR EACH ROW EXECUTE FUNCTION refuse_named();
CREATE TRIGGER worker_stays BEFORE DELETE OR UPDATE OF id ON worker FOR EACH ROW EXECUTE FUNCTION refuse_named();
CREATE TRIGGER process_stays BEFORE DELETE OR UPDATE OF epoch ON process FOR EACH ROW EXECUTE FUNCTION refuse_named();
CREATE TRIGGER job_stays BEFORE DELETE OR UPDATE OF id ON job FOR EACH ROW EXECUTE FUNCTION refuse_named();

-- For `rota verify`: how many rows point at rows that are not there, by a question for each key, those above included.
CREATE OR REPLACE FUNCTION dangling() RETURNS TABLE (child TEXT, parent TEXT, lost BIGINT) LANGUAGE plpgsql STABLE AS $$
DECLARE
    key RECORD;
BEGIN
    FOR key IN
        SELECT conrelid::regclass::text AS one, confrelid::regclass::text AS other,
            string_agg(format('one.%I IS NOT NULL', held.attname), ' AND ') AS present,
            string_agg(format('other.%I = one.%I', named.attname, held.attname), ' AND ') AS same
        FROM pg_constraint CROSS JOIN LATERAL unnest(conkey, confkey) AS pair (held, named)
        JOIN pg_attribute AS held ON held.attrelid = conrelid AND held.attnum = pair.held
        JOIN pg_attribute AS named ON named.attrelid = confrelid AND named.attnum = pair.named
        WHERE contype = 'f' AND connamespace = current_schema()::regnamespace
        GROUP BY pg_constraint.oid, conrelid, confrelid
        UNION ALL
        SELECT looked.one, looked.other, format('one.%I IS NOT NULL', looked.held), format('other.%I = one.%I', looked.named, looked.held)
        FROM (VALUES ('run', 'worker_id', 'worker', 'id'), ('run', 'epoch', 'process', 'epoch'),
            ('execution', 'worker_id', 'worker', 'id'), ('execution', 'epoch', 'process', 'epoch'),
            ('execution', 'job_id', 'job', 'id'), ('execution', 'run_id', 'run', 'id')) AS looked (one, held, other, named)
    LOOP
        RETURN QUERY EXECUTE format(
            'SELECT %L, %L, count(*) FROM %s AS one WHERE %s AND NOT EXISTS (SELECT 1 FROM %s AS other WHERE %s) HAVING count(*) > 0',
            key.one, key.other, key.one, key.present, key.other, key.same);
    END LOOP;
END $$;

-- What each connection committed last. A server that crashed gives the numbers of transactions that it lost to others: whoever got no
-- answer to its COMMIT looks here, and not only at what became of that number. Rows of a week ago are taken away by who comes new.
CREATE TABLE committed (
    link TEXT COLLATE "C" PRIMARY KEY,
    number BIGINT NOT NULL,
    at BIGINT NOT NULL
);

-- The change feed says what happened, so that a run which starts and ends between two looks is still told as created, started and finished.
-- `run.skipped` and `run.begun` were inserted as finished and as running; `run.changed` is named by the state of the run, as the rows of
-- before are, which say `run`.
DROP TRIGGER run_made ON run;

CREATE FUNCTION note_made() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO change (kind, subject)
    VALUES (CASE WHEN NEW.finished_at IS NOT NULL THEN 'run.skipped' WHEN NEW.status = 'RUNNING' THEN 'run.begun'
                 ELSE 'run.created' END, NEW.id);
    RETURN NULL;
END $$;

CREATE TRIGGER run_made AFTER INSERT ON run
FOR EACH ROW EXECUTE FUNCTION note_made();

CREATE OR REPLACE FUNCTION note_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holder_is_known('run', worker_id, epoch) FROM (
        SELECT DISTINCT worker_id, epoch FROM moved WHERE worker_id IS NOT NULL OR epoch IS NOT NULL) AS held;
    INSERT INTO change (kind, subject)
    SELECT told.kind, string_agg(told.id, ' ') FROM (
        SELECT after.id, (row_number() OVER () - 1) / 50 AS part,
               CASE WHEN after.finished_at IS NOT NULL THEN 'run.finished'
                    WHEN after.status = 'RUNNING' AND before.status <> 'RUNNING' THEN 'run.started'
                    WHEN after.status = 'QUEUED' AND after.waiting_for IS NOT NULL THEN 'run.waiting'
                    ELSE 'run.changed' END AS kind
        FROM moved AS after JOIN standing AS before ON before.id = after.id
        WHERE after.status <> before.status OR after.waiting_for IS DISTINCT FROM before.waiting_for
           OR after.cancel_requested_at IS DISTINCT FROM before.cancel_requested_at OR after.priority <> before.priority
           OR after.params <> before.params) AS told
    GROUP BY told.kind, told.part;
    RETURN NULL;
END $$;

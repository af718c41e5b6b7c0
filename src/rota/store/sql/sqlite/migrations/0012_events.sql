-- The change feed says what happened, so that a run which starts and ends between two looks is still told as created, started and finished.
-- `run.skipped` and `run.begun` were inserted as finished and as running; `run.changed` is named by the state of the run, as the rows of
-- before are, which say `run`.
DROP TRIGGER run_made;
DROP TRIGGER run_moved;

CREATE TRIGGER run_made AFTER INSERT ON run
BEGIN
    INSERT INTO change (kind, subject)
    VALUES (CASE WHEN NEW.finished_at IS NOT NULL THEN 'run.skipped' WHEN NEW.status = 'RUNNING' THEN 'run.begun'
                 ELSE 'run.created' END, NEW.id);
END;

CREATE TRIGGER run_moved AFTER UPDATE OF status, waiting_for, cancel_requested_at, priority, params ON run
WHEN NEW.status <> OLD.status OR NEW.waiting_for IS NOT OLD.waiting_for OR NEW.cancel_requested_at IS NOT OLD.cancel_requested_at
  OR NEW.priority <> OLD.priority OR NEW.params <> OLD.params
BEGIN
    INSERT INTO change (kind, subject)
    VALUES (CASE WHEN NEW.finished_at IS NOT NULL THEN 'run.finished'
                 WHEN NEW.status = 'RUNNING' AND OLD.status <> 'RUNNING' THEN 'run.started'
                 WHEN NEW.status = 'QUEUED' AND NEW.waiting_for IS NOT NULL THEN 'run.waiting'
                 ELSE 'run.changed' END, NEW.id);
END;

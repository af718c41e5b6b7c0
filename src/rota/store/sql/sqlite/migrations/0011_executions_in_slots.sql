-- INV-003: the execution of a run is in the slot that its run has. On PostgreSQL it is refused elsewhere already.
CREATE TRIGGER inv_003_execution BEFORE INSERT ON execution
WHEN NEW.run_id IS NOT NULL AND NEW.finished_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM run
    WHERE id = NEW.run_id AND status IN ('DISPATCHED', 'RUNNING') AND worker_id = NEW.worker_id AND slot = NEW.slot)
BEGIN SELECT RAISE(ABORT, 'INV-003'); END;

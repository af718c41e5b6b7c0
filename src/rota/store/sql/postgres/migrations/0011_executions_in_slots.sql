-- INV-003 for executions has a trigger of its own, as on SQLite; what was looked at stays the same.
CREATE OR REPLACE FUNCTION execution_made_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holder_is_known('execution', worker_id, epoch) FROM (SELECT DISTINCT worker_id, epoch FROM made) AS held;
    PERFORM refuse_key('execution', 'job') FROM (SELECT DISTINCT job_id FROM made WHERE job_id IS NOT NULL) AS named
    WHERE (SELECT job.id FROM job WHERE job.id = named.job_id) IS NULL;
    RETURN NULL;
END $$;

-- The execution of a run is in the slot that its run has, and in none that a direct call has. Who claims runs that start at once relies on it.
CREATE FUNCTION inv_003_execution() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
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

CREATE TRIGGER inv_003_execution AFTER INSERT ON execution REFERENCING NEW TABLE AS made
FOR EACH STATEMENT EXECUTE FUNCTION inv_003_execution();

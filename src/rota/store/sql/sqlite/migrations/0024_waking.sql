-- Jobs that wake the machine: the scheduler sets its alarm for the next instant of them.
CREATE TABLE waking (
    job_id TEXT PRIMARY KEY REFERENCES job (id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TRIGGER job_version_wakes AFTER INSERT ON job_version
BEGIN
    DELETE FROM waking WHERE job_id = NEW.job_id;
    INSERT INTO waking (job_id) SELECT NEW.job_id WHERE json_extract(NEW.spec, '$.wake') = 1;
END;

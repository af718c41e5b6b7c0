-- Jobs that wake the machine: the scheduler sets its alarm for the next instant of them.
CREATE TABLE waking (
    job_id TEXT COLLATE "C" PRIMARY KEY REFERENCES job (id) ON DELETE CASCADE
);

CREATE FUNCTION job_version_wakes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM waking WHERE job_id = NEW.job_id;
    INSERT INTO waking (job_id) SELECT NEW.job_id WHERE NEW.spec::json ->> 'wake' = 'true';
    RETURN NULL;
END $$;

CREATE TRIGGER job_version_wakes AFTER INSERT ON job_version
FOR EACH ROW EXECUTE FUNCTION job_version_wakes();

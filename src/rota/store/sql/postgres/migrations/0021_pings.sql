-- Jobs whose starts and ends are sent to a health check: the end of a run looks here, as in `notifying`.
CREATE TABLE pinging (
    job_id TEXT COLLATE "C" PRIMARY KEY REFERENCES job (id) ON DELETE CASCADE
);

CREATE FUNCTION job_version_pings() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM pinging WHERE job_id = NEW.job_id;
    INSERT INTO pinging (job_id) SELECT NEW.job_id WHERE NEW.spec::json ->> 'ping' IS NOT NULL;
    RETURN NULL;
END $$;

CREATE TRIGGER job_version_pings AFTER INSERT ON job_version
FOR EACH ROW EXECUTE FUNCTION job_version_pings();

-- Jobs whose starts and ends are sent to a health check: the end of a run looks here, as in `notifying`.
CREATE TABLE pinging (
    job_id TEXT PRIMARY KEY REFERENCES job (id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TRIGGER job_version_pings AFTER INSERT ON job_version
BEGIN
    DELETE FROM pinging WHERE job_id = NEW.job_id;
    INSERT INTO pinging (job_id) SELECT NEW.job_id WHERE json_extract(NEW.spec, '$.ping') IS NOT NULL;
END;

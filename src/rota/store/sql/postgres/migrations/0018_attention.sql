-- What needs attention, as people were notified of it; and deliveries about something other than a run.

-- `subject` is the run, or what else a delivery is about; `payload` is its message, if no run is; deliveries of a `line` go in order.
ALTER TABLE delivery ALTER COLUMN run_id DROP NOT NULL;
ALTER TABLE delivery ADD COLUMN subject TEXT COLLATE "C";
ALTER TABLE delivery ADD COLUMN payload TEXT COLLATE "C" CHECK (payload IS NULL OR (payload::json) IS NOT NULL);
ALTER TABLE delivery ADD COLUMN line TEXT COLLATE "C";
UPDATE delivery SET subject = run_id;
ALTER TABLE delivery ALTER COLUMN subject SET NOT NULL;
ALTER TABLE delivery ADD CHECK (run_id IS NOT NULL OR payload IS NOT NULL);
ALTER TABLE delivery DROP CONSTRAINT delivery_run_id_event_target_key;
ALTER TABLE delivery ADD UNIQUE (subject, event, target);
CREATE INDEX delivery_run ON delivery (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX delivery_line ON delivery (line, id) WHERE next_at IS NOT NULL AND line IS NOT NULL;

-- The items as of the last look. `message`: the message that reported this mark; null while it waits for others that belong together.
CREATE TABLE attention (
    topic       TEXT COLLATE "C" PRIMARY KEY,
    mark        TEXT COLLATE "C" NOT NULL,
    kind        TEXT COLLATE "C" NOT NULL,
    name        TEXT COLLATE "C" NOT NULL,
    what        TEXT COLLATE "C" NOT NULL,
    command     TEXT COLLATE "C" NOT NULL,
    subject     TEXT COLLATE "C" NOT NULL,
    since       BIGINT NOT NULL,
    absent_at   BIGINT,
    message     TEXT COLLATE "C"
);

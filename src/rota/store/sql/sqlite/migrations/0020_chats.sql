-- Bots of chats: the position behind the last update that was stored, and the process that reads them.
CREATE TABLE chat_bot (
    bot         TEXT PRIMARY KEY,
    cursor      INTEGER,
    cursor_at   INTEGER,
    epoch       INTEGER,
    lease_until INTEGER,
    ignored     INTEGER NOT NULL DEFAULT 0 CHECK (ignored >= 0),
    CHECK ((cursor IS NULL) = (cursor_at IS NULL)),
    CHECK ((epoch IS NULL) = (lease_until IS NULL))
) STRICT, WITHOUT ROWID;

-- The events of bots without a position that were acted on: the service may send them again.
CREATE TABLE chat_received (
    bot TEXT NOT NULL,
    key TEXT NOT NULL,
    at  INTEGER NOT NULL,
    PRIMARY KEY (bot, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX chat_received_at ON chat_received (at);

-- Messages to chats, stored before they are sent. `next_at`: to be sent, or, if it was sent, to be closed.
CREATE TABLE chat_message (
    id         TEXT PRIMARY KEY,
    bot        TEXT NOT NULL,
    chat       TEXT NOT NULL,
    target     TEXT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('result', 'question', 'notice')),
    subject    TEXT NOT NULL,
    part       INTEGER NOT NULL DEFAULT 0 CHECK (part >= 0),
    body       TEXT NOT NULL DEFAULT '',
    reply_to   TEXT NOT NULL DEFAULT '',
    message    TEXT,
    state      TEXT NOT NULL CHECK (state IN ('PENDING', 'SENT', 'CLOSED', 'FAILED')),
    attempts   INTEGER NOT NULL DEFAULT 0,
    next_at    INTEGER,
    created_at INTEGER NOT NULL,
    sent_at    INTEGER,
    error      TEXT,
    UNIQUE (bot, chat, kind, subject, part),
    CHECK ((message IS NULL) = (sent_at IS NULL)),
    CHECK (state <> 'SENT' OR message IS NOT NULL),
    CHECK (state <> 'PENDING' OR (message IS NULL AND next_at IS NOT NULL)),
    CHECK (state IN ('PENDING', 'SENT') OR next_at IS NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX chat_message_due ON chat_message (bot, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX chat_message_sent ON chat_message (bot, chat, message) WHERE message IS NOT NULL;
CREATE INDEX chat_message_made ON chat_message (created_at);

-- Replies to the answers of runs. `run`: the run whose prompt the text is.
CREATE TABLE reply (
    run        TEXT PRIMARY KEY REFERENCES run (id) ON DELETE CASCADE,
    replied_id TEXT NOT NULL,
    replied    TEXT NOT NULL,
    -- The session that goes on; empty: the answer is carried over into a new one.
    session    TEXT NOT NULL,
    text       TEXT NOT NULL CHECK (text <> ''),
    door       TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    user_name  TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Jobs that deliver answers look at the ends of their runs too.
DROP TRIGGER job_version_notifies;
CREATE TRIGGER job_version_notifies AFTER INSERT ON job_version
BEGIN
    DELETE FROM notifying WHERE job_id = NEW.job_id;
    INSERT INTO notifying (job_id)
    SELECT NEW.job_id
    WHERE json_array_length(NEW.spec, '$.notify') > 0
       OR json_array_length(NEW.spec, '$.notify_own') > 0
       OR json_array_length(NEW.spec, '$.work.agent.deliver.to') > 0
       OR json_extract(NEW.spec, '$.finish_by') <> '';
END;

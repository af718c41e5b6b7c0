-- Bots of chats: the position behind the last update that was stored, and the process that reads them.
CREATE TABLE chat_bot (
    bot         TEXT COLLATE "C" PRIMARY KEY,
    cursor      BIGINT,
    cursor_at   BIGINT,
    epoch       BIGINT,
    lease_until BIGINT,
    ignored     BIGINT NOT NULL DEFAULT 0 CHECK (ignored >= 0),
    CHECK ((cursor IS NULL) = (cursor_at IS NULL)),
    CHECK ((epoch IS NULL) = (lease_until IS NULL))
);

-- The events of bots without a position that were acted on: the service may send them again.
CREATE TABLE chat_received (
    bot TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    at  BIGINT NOT NULL,
    PRIMARY KEY (bot, key)
);
CREATE INDEX chat_received_at ON chat_received (at);

-- Messages to chats, stored before they are sent. `next_at`: to be sent, or, if it was sent, to be closed.
CREATE TABLE chat_message (
    id         TEXT COLLATE "C" PRIMARY KEY,
    bot        TEXT COLLATE "C" NOT NULL,
    chat       TEXT COLLATE "C" NOT NULL,
    target     TEXT COLLATE "C" NOT NULL,
    kind       TEXT COLLATE "C" NOT NULL CHECK (kind IN ('result', 'question', 'notice')),
    subject    TEXT COLLATE "C" NOT NULL,
    part       BIGINT NOT NULL DEFAULT 0 CHECK (part >= 0),
    body       TEXT COLLATE "C" NOT NULL DEFAULT '',
    reply_to   TEXT COLLATE "C" NOT NULL DEFAULT '',
    message    TEXT COLLATE "C",
    state      TEXT COLLATE "C" NOT NULL CHECK (state IN ('PENDING', 'SENT', 'CLOSED', 'FAILED')),
    attempts   BIGINT NOT NULL DEFAULT 0,
    next_at    BIGINT,
    created_at BIGINT NOT NULL,
    sent_at    BIGINT,
    error      TEXT COLLATE "C",
    UNIQUE (bot, chat, kind, subject, part),
    CHECK ((message IS NULL) = (sent_at IS NULL)),
    CHECK (state <> 'SENT' OR message IS NOT NULL),
    CHECK (state <> 'PENDING' OR (message IS NULL AND next_at IS NOT NULL)),
    CHECK (state IN ('PENDING', 'SENT') OR next_at IS NULL)
);
CREATE INDEX chat_message_due ON chat_message (bot, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX chat_message_sent ON chat_message (bot, chat, message) WHERE message IS NOT NULL;
CREATE INDEX chat_message_made ON chat_message (created_at);

-- Replies to the answers of runs. `run`: the run whose prompt the text is.
CREATE TABLE reply (
    run        TEXT COLLATE "C" PRIMARY KEY REFERENCES run (id) ON DELETE CASCADE,
    replied_id TEXT COLLATE "C" NOT NULL,
    replied    TEXT COLLATE "C" NOT NULL,
    -- The session that goes on; empty: the answer is carried over into a new one.
    session    TEXT COLLATE "C" NOT NULL,
    text       TEXT COLLATE "C" NOT NULL CHECK (text <> ''),
    door       TEXT COLLATE "C" NOT NULL,
    user_id    TEXT COLLATE "C" NOT NULL,
    user_name  TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL
);

-- Jobs that deliver answers look at the ends of their runs too.
CREATE OR REPLACE FUNCTION job_version_notifies() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM notifying WHERE job_id = NEW.job_id;
    INSERT INTO notifying (job_id)
    SELECT NEW.job_id
    WHERE json_array_length(NEW.spec::json -> 'notify') > 0
       OR json_array_length(NEW.spec::json -> 'notify_own') > 0
       OR json_array_length(NEW.spec::json -> 'work' -> 'agent' -> 'deliver' -> 'to') > 0
       OR NEW.spec::json ->> 'finish_by' <> '';
    RETURN NULL;
END $$;

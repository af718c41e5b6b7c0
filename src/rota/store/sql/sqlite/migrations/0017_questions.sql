-- Questions to people, and standing grants of tool calls. A question is written once and ends once: answered, expired or withdrawn.

CREATE TABLE question (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    subject     TEXT NOT NULL CHECK (subject IN ('run', 'job', 'proposal')),
    job_id      TEXT NOT NULL REFERENCES job (id),
    -- The run or direct call that asked; null for a proposal.
    run_id      TEXT,
    text        TEXT NOT NULL CHECK (length(text) BETWEEN 1 AND 4000),
    digest      TEXT NOT NULL,
    choices     TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(choices)),
    -- The actors that may answer; empty: any actor with the right to answer.
    allowed     TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(allowed)),
    asked_by    TEXT NOT NULL,
    asked_at    INTEGER NOT NULL,
    expires_at  INTEGER,
    fallback    TEXT CHECK (length(fallback) <= 4000),
    -- The exact tool call that needs permission.
    call        TEXT CHECK (json_valid(call)),
    -- 1: the end of `run_id` inserts the run that continues with the answer.
    waits       INTEGER NOT NULL DEFAULT 0 CHECK (waits = 0 OR waits = 1),
    -- The run that gets the answer.
    used_by     TEXT,
    state       TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'answered', 'expired', 'withdrawn')),
    answer      TEXT CHECK (length(answer) <= 4000),
    answered_by TEXT,
    door        TEXT CHECK (door IN ('cli', 'api', 'dashboard', 'mcp', 'telegram', 'slack')),
    ended_at    INTEGER,
    why         TEXT,
    CHECK ((state = 'open') = (ended_at IS NULL)),
    CHECK ((state = 'answered') = (answered_by IS NOT NULL) AND (state = 'answered') = (door IS NOT NULL)),
    CHECK (state <> 'answered' OR answer IS NOT NULL),
    CHECK (state <> 'open' OR answer IS NULL),
    CHECK ((state = 'withdrawn') = (why IS NOT NULL)),
    CHECK ((subject = 'proposal') = (run_id IS NULL)),
    CHECK (call IS NULL OR subject = 'run'),
    CHECK (waits = 0 OR subject = 'run')
) STRICT;

CREATE INDEX question_open ON question (number) WHERE state = 'open';
CREATE INDEX question_expiring ON question (expires_at) WHERE state = 'open' AND expires_at IS NOT NULL;
CREATE INDEX question_pending ON question (job_id) WHERE state = 'open' OR waits = 1;
CREATE INDEX question_job ON question (job_id, number);
CREATE INDEX question_run ON question (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX question_used ON question (used_by) WHERE used_by IS NOT NULL;
CREATE INDEX question_ended ON question (ended_at) WHERE ended_at IS NOT NULL;
CREATE UNIQUE INDEX question_proposal ON question (job_id) WHERE state = 'open' AND subject = 'proposal';
-- One run continues another one.
CREATE UNIQUE INDEX run_continued ON run (retry_of) WHERE trigger = 'answer';

CREATE TRIGGER question_is_kept BEFORE UPDATE ON question
WHEN NEW.number IS NOT OLD.number OR NEW.subject IS NOT OLD.subject OR NEW.job_id IS NOT OLD.job_id
    OR NEW.run_id IS NOT OLD.run_id OR NEW.text IS NOT OLD.text OR NEW.digest IS NOT OLD.digest
    OR NEW.choices IS NOT OLD.choices OR NEW.allowed IS NOT OLD.allowed OR NEW.asked_by IS NOT OLD.asked_by
    OR NEW.asked_at IS NOT OLD.asked_at OR NEW.expires_at IS NOT OLD.expires_at
    OR NEW.fallback IS NOT OLD.fallback OR NEW.call IS NOT OLD.call OR NEW.waits > OLD.waits
    OR (OLD.used_by IS NOT NULL AND NEW.used_by IS NOT OLD.used_by)
BEGIN SELECT RAISE(ABORT, 'a question keeps its text and subject'); END;

CREATE TRIGGER question_is_final BEFORE UPDATE ON question
WHEN OLD.state <> 'open' AND (NEW.state IS NOT OLD.state OR NEW.answer IS NOT OLD.answer
    OR NEW.answered_by IS NOT OLD.answered_by OR NEW.door IS NOT OLD.door
    OR NEW.ended_at IS NOT OLD.ended_at OR NEW.why IS NOT OLD.why)
BEGIN SELECT RAISE(ABORT, 'a finished question never changes'); END;

CREATE TRIGGER question_made AFTER INSERT ON question
BEGIN INSERT INTO change (kind, subject) VALUES ('question.asked', NEW.number); END;

CREATE TRIGGER question_ends AFTER UPDATE OF state ON question WHEN NEW.state <> OLD.state
BEGIN INSERT INTO change (kind, subject) VALUES ('question.' || NEW.state, NEW.number); END;

-- A question with the name of its job, and the numbers of the run that asked and of the run that gets the answer.
CREATE VIEW question_now AS
SELECT question.*, job.name AS job, (SELECT run.number FROM run WHERE run.id = question.run_id) AS run_number,
    (SELECT run.number FROM run WHERE run.id = question.used_by) AS used_number
FROM question JOIN job ON job.id = question.job_id;

-- Permission for one exact tool call of one definition of a job.
CREATE TABLE standing_grant (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id       TEXT NOT NULL REFERENCES job (id),
    digest       TEXT NOT NULL,
    call         TEXT NOT NULL CHECK (json_valid(call)),
    call_digest  TEXT NOT NULL,
    question     INTEGER NOT NULL,
    granted_by   TEXT NOT NULL,
    granted_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    uses         INTEGER NOT NULL DEFAULT 0,
    last_used_at INTEGER,
    revoked_at   INTEGER,
    revoked_by   TEXT,
    CHECK ((revoked_at IS NULL) = (revoked_by IS NULL)),
    CHECK ((uses = 0) = (last_used_at IS NULL))
) STRICT;

CREATE UNIQUE INDEX grant_call ON standing_grant (job_id, digest, call_digest) WHERE revoked_at IS NULL;

CREATE TRIGGER grant_is_kept BEFORE UPDATE ON standing_grant
WHEN NEW.number IS NOT OLD.number OR NEW.job_id IS NOT OLD.job_id OR NEW.digest IS NOT OLD.digest OR NEW.call IS NOT OLD.call
    OR NEW.call_digest IS NOT OLD.call_digest OR NEW.question IS NOT OLD.question OR NEW.granted_by IS NOT OLD.granted_by
    OR NEW.granted_at IS NOT OLD.granted_at OR NEW.expires_at IS NOT OLD.expires_at OR NEW.uses < OLD.uses
    OR OLD.revoked_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a grant is used and revoked, never edited'); END;

-- The jobs that already wait for approval.
INSERT INTO question (subject, job_id, text, digest, choices, asked_by, asked_at)
SELECT 'proposal', job.id, 'Approve the job ' || job.name || '?', job_version.digest, '["approve","reject"]', job.made_by, job.provisional_at
FROM job JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
WHERE job.provisional_at IS NOT NULL AND job.retired_at IS NULL ORDER BY job.provisional_at;

-- name: chat_bot_insert
INSERT INTO chat_bot (bot) VALUES (:bot) ON CONFLICT DO NOTHING

-- name: chat_bot_get
SELECT bot, cursor, cursor_at, epoch, lease_until, ignored FROM chat_bot WHERE bot = :bot

-- name: chat_bots
SELECT bot, cursor, cursor_at, epoch, lease_until, ignored FROM chat_bot ORDER BY bot

-- name: chat_bot_take
-- One process reads a bot: the one that has the lease, or any other when the lease is over or its process has ended.
UPDATE chat_bot SET epoch = :epoch, lease_until = :until
WHERE bot = :bot AND (epoch IS NULL OR epoch = :epoch OR lease_until < :now
    OR NOT EXISTS (SELECT 1 FROM process WHERE process.epoch = chat_bot.epoch AND process.ended_at IS NULL))

-- name: chat_bot_leave
UPDATE chat_bot SET epoch = NULL, lease_until = NULL WHERE epoch = :epoch

-- name: chat_bot_move
-- The position moves in the transaction of what the update brought: an update counts once.
UPDATE chat_bot SET cursor = :cursor, cursor_at = :now
WHERE bot = :bot AND (cursor IS NULL OR cursor < :cursor OR cursor_at < :forgotten)

-- name: chat_bot_ignore
UPDATE chat_bot SET ignored = ignored + :count WHERE bot = :bot

-- name: chat_received_insert
INSERT INTO chat_received (bot, key, at) VALUES (:bot, :key, :now) ON CONFLICT DO NOTHING

-- name: chat_received_prune
DELETE FROM chat_received WHERE at < :before

-- name: chat_message_insert
INSERT INTO chat_message (id, bot, chat, target, kind, subject, part, body, reply_to, state, next_at, created_at)
VALUES (:id, :bot, :chat, :target, :kind, :subject, :part, :body, :reply_to, 'PENDING', :now, :now)
ON CONFLICT (bot, chat, kind, subject, part) DO NOTHING

-- name: chat_message_sent_insert
INSERT INTO chat_message (id, bot, chat, target, kind, subject, part, body, message, state, attempts, created_at, sent_at)
VALUES (:id, :bot, :chat, :target, :kind, :subject, :part, :body, :message, 'SENT', 1, :now, :now)
ON CONFLICT (bot, chat, kind, subject, part) DO UPDATE SET message = :message, sent_at = :now

-- name: chat_message_due
SELECT id, bot, chat, target, kind, subject, part, body, reply_to, message, state, attempts, next_at, created_at, sent_at, error
FROM chat_message WHERE bot = :bot AND next_at <= :now ORDER BY next_at, created_at, id LIMIT :limit

-- name: chat_message_next
SELECT min(next_at) FROM chat_message WHERE bot = :bot AND next_at IS NOT NULL

-- name: chat_message_get
SELECT id, bot, chat, target, kind, subject, part, body, reply_to, message, state, attempts, next_at, created_at, sent_at, error
FROM chat_message WHERE id = :id

-- name: chat_message_of
SELECT id, bot, chat, target, kind, subject, part, body, reply_to, message, state, attempts, next_at, created_at, sent_at, error
FROM chat_message WHERE bot = :bot AND chat = :chat AND message = :message ORDER BY created_at DESC LIMIT 1

-- name: chat_messages_about
SELECT id, bot, chat, target, kind, subject, part, body, reply_to, message, state, attempts, next_at, created_at, sent_at, error
FROM chat_message WHERE bot = :bot AND chat = :chat AND kind = :kind AND subject = :subject ORDER BY part

-- name: chat_questions_unsent
-- The open questions that a chat does not have yet.
SELECT number, digest FROM question WHERE state = 'open' AND NOT EXISTS (
    SELECT 1 FROM chat_message
    WHERE bot = :bot AND chat = :chat AND kind = 'question' AND subject = CAST(question.number AS text) AND part = 0)
ORDER BY number LIMIT :limit

-- name: chat_questions_over
-- The messages with buttons whose question has ended, or is no longer stored.
SELECT chat_message.id FROM chat_message
WHERE bot = :bot AND kind = 'question' AND chat_message.state = 'SENT' AND next_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM question WHERE CAST(number AS text) = chat_message.subject AND question.state = 'open')
ORDER BY chat_message.created_at LIMIT :limit

-- name: chat_message_end
-- The attempts to remove the buttons are counted anew.
UPDATE chat_message SET next_at = :now, attempts = 0 WHERE id = :id AND state = 'SENT' AND next_at IS NULL

-- name: chat_message_take
UPDATE chat_message SET attempts = attempts + 1, next_at = :until WHERE id = :id AND next_at <= :now

-- name: chat_message_sent
UPDATE chat_message SET state = 'SENT', message = :message, sent_at = :now, next_at = NULL, error = NULL WHERE id = :id AND state = 'PENDING'

-- name: chat_message_closed
UPDATE chat_message SET state = 'CLOSED', next_at = NULL, error = :error WHERE id = :id AND state IN ('PENDING', 'SENT')

-- name: chat_message_again
UPDATE chat_message SET next_at = :next_at, error = :error WHERE id = :id AND next_at IS NOT NULL

-- name: chat_message_failed
UPDATE chat_message SET state = 'FAILED', next_at = NULL, error = :error WHERE id = :id AND next_at IS NOT NULL

-- name: chat_message_drop
DELETE FROM chat_message WHERE id = :id AND state = 'PENDING'

-- name: chat_messages_failed
SELECT target, count(*), coalesce(max(error), ''), max(created_at) FROM chat_message
WHERE (state = 'FAILED' AND created_at >= :since) OR (state = 'PENDING' AND attempts >= :attempts AND error IS NOT NULL)
GROUP BY target ORDER BY target

-- name: chat_messages_reclaim
-- Only the reader of a bot sends its messages: what an earlier reader had reserved is due again. A failed attempt keeps its pause.
UPDATE chat_message SET next_at = :now WHERE bot = :bot AND next_at > :now AND attempts > 0 AND error IS NULL

-- name: chat_messages_shift
UPDATE chat_message SET next_at = next_at - :back WHERE next_at IS NOT NULL

-- name: chat_messages_old
SELECT EXISTS (SELECT 1 FROM chat_message WHERE created_at < :before) OR EXISTS (SELECT 1 FROM chat_received WHERE at < :received)

-- name: chat_message_prune
DELETE FROM chat_message WHERE id IN (SELECT id FROM chat_message WHERE created_at < :before ORDER BY created_at LIMIT :limit)

-- name: chat_messages_leave
UPDATE chat_message SET state = 'FAILED', next_at = NULL, error = :error WHERE next_at IS NOT NULL

-- name: delivery_extend
UPDATE delivery SET next_at = :until WHERE id = :id AND next_at IS NOT NULL

-- name: reply_insert
INSERT INTO reply (run, replied_id, replied, session, text, door, user_id, user_name, created_at)
VALUES (:run_id, :replied_id, :replied, :session, :text, :door, :user, :name, :created_at)

-- name: reply_of
-- A retry has the text of the first run of its chain.
SELECT reply.run, reply.replied_id, reply.replied, reply.session, reply.text, reply.door, reply.user_id, reply.user_name, reply.created_at
FROM run JOIN reply ON reply.run = coalesce(run.chain_id, run.id) WHERE run.id = :run_id

-- name: attention_all
SELECT topic, mark, kind, name, what, command, subject, since, absent_at, message FROM attention ORDER BY since, topic

-- name: attention_put
INSERT INTO attention (topic, mark, kind, name, what, command, subject, since, absent_at, message)
VALUES (:topic, :mark, :kind, :name, :what, :command, :subject, :since, :absent_at, :message)
ON CONFLICT (topic) DO UPDATE SET mark = excluded.mark, kind = excluded.kind, name = excluded.name, what = excluded.what,
    command = excluded.command, subject = excluded.subject, since = excluded.since, absent_at = excluded.absent_at,
    message = excluded.message

-- name: attention_drop
DELETE FROM attention WHERE topic = :topic

-- name: attention_shift
UPDATE attention SET since = since - :back, absent_at = absent_at - :back

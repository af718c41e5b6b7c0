-- name: audit_insert
INSERT INTO audit (at, actor, face, action, target, detail) VALUES (:at, :actor, :face, :action, :target, :detail)

-- name: audit_entries
SELECT number, at, actor, face, action, target, detail FROM audit
WHERE number < :before AND at >= :since AND (CAST(:actor AS TEXT) IS NULL OR actor = :actor)
ORDER BY number DESC LIMIT :limit

-- name: key_find
SELECT digest, status, body FROM request_key WHERE caller = :caller AND key = :key AND at >= :since

-- name: keys_forget
DELETE FROM request_key WHERE at < :before

-- name: key_claim
INSERT INTO request_key (caller, key, digest, at) VALUES (:caller, :key, :digest, :at) ON CONFLICT DO NOTHING

-- name: key_answer
INSERT INTO request_key (caller, key, digest, at, status, body) VALUES (:caller, :key, :digest, :at, :status, :body)
ON CONFLICT (caller, key) DO UPDATE SET status = :status, body = :body WHERE request_key.digest = :digest

-- name: event_insert
INSERT INTO event (id, at, kind, job_id, run_id, data) VALUES (:id, :at, :kind, :job_id, :run_id, :data)

-- name: events_newest
SELECT id, at, kind, job_id, run_id, data FROM event WHERE at >= :since ORDER BY id DESC LIMIT :limit

-- name: acknowledgements_all
SELECT topic, sign, actor, acknowledged_at FROM acknowledgement ORDER BY topic

-- name: acknowledgement_put
INSERT INTO acknowledgement (topic, sign, actor, acknowledged_at) VALUES (:topic, :sign, :actor, :now)
ON CONFLICT (topic) DO UPDATE SET sign = excluded.sign, actor = excluded.actor, acknowledged_at = excluded.acknowledged_at

-- name: acknowledgement_drop
DELETE FROM acknowledgement WHERE topic = :topic

-- name: event_oldest_before
SELECT id FROM event WHERE id < :before ORDER BY id LIMIT 1

-- name: event_prune
-- Identifiers grow with time, so that the oldest are found without looking at the others.
DELETE FROM event WHERE id IN (SELECT id FROM event WHERE id < :before ORDER BY id LIMIT :limit)

-- name: grant_insert
INSERT INTO standing_grant (job_id, digest, call, call_digest, question, granted_by, granted_at, expires_at)
VALUES (:job_id, :digest, :call, :call_digest, :question, :granted_by, :granted_at, :expires_at)

-- name: grant_find
SELECT standing_grant.number, standing_grant.job_id, job.name, standing_grant.digest, standing_grant.call, standing_grant.question,
    standing_grant.granted_by, standing_grant.granted_at, standing_grant.expires_at, standing_grant.uses, standing_grant.last_used_at,
    standing_grant.revoked_at, standing_grant.revoked_by
FROM standing_grant JOIN job ON job.id = standing_grant.job_id
WHERE standing_grant.job_id = :job_id AND standing_grant.digest = :digest AND standing_grant.call_digest = :call_digest
    AND standing_grant.revoked_at IS NULL

-- name: grant_by_number
SELECT standing_grant.number, standing_grant.job_id, job.name, standing_grant.digest, standing_grant.call, standing_grant.question,
    standing_grant.granted_by, standing_grant.granted_at, standing_grant.expires_at, standing_grant.uses, standing_grant.last_used_at,
    standing_grant.revoked_at, standing_grant.revoked_by
FROM standing_grant JOIN job ON job.id = standing_grant.job_id WHERE standing_grant.number = :number

-- name: grants_newest
SELECT standing_grant.number, standing_grant.job_id, job.name, standing_grant.digest, standing_grant.call, standing_grant.question,
    standing_grant.granted_by, standing_grant.granted_at, standing_grant.expires_at, standing_grant.uses, standing_grant.last_used_at,
    standing_grant.revoked_at, standing_grant.revoked_by
FROM standing_grant JOIN job ON job.id = standing_grant.job_id
WHERE CAST(:job_id AS text) IS NULL OR standing_grant.job_id = :job_id ORDER BY standing_grant.number DESC LIMIT :limit

-- name: grant_use
UPDATE standing_grant SET uses = uses + 1, last_used_at = :now WHERE number = :number AND revoked_at IS NULL AND expires_at > :now

-- name: grant_revoke
UPDATE standing_grant SET revoked_at = :now, revoked_by = :by WHERE number = :number AND revoked_at IS NULL

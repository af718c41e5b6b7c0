SELECT number, at, actor, face, action, target, detail FROM audit
WHERE number < :before AND at >= :since AND (CAST(:actor AS TEXT) IS NULL OR actor = :actor)
ORDER BY number DESC LIMIT :limit

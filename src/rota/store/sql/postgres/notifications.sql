-- name: delivery_due
SELECT id, run_id, handle, event, target, own, endpoint, status, attempts, next_at, created_at, finished_at, answer, error,
    subject, payload, line
FROM delivery
WHERE next_at <= :now
  AND endpoint NOT IN (SELECT json_array_elements_text(CAST(:busy AS json)))
  AND NOT EXISTS (SELECT 1 FROM endpoint WHERE endpoint.endpoint = delivery.endpoint AND endpoint.closed_until > :now)
  AND (line IS NULL OR NOT EXISTS (
    SELECT 1 FROM delivery AS earlier WHERE earlier.line = delivery.line AND earlier.next_at IS NOT NULL AND earlier.id < delivery.id))
ORDER BY next_at, id LIMIT :limit

-- name: delivery_next_due
-- When an endpoint is left alone, its deliveries wait for the end of that.
SELECT min(greatest(next_at, (SELECT closed_until FROM endpoint WHERE endpoint.endpoint = delivery.endpoint)))
FROM delivery
WHERE next_at IS NOT NULL
  AND (line IS NULL OR NOT EXISTS (
    SELECT 1 FROM delivery AS earlier WHERE earlier.line = delivery.line AND earlier.next_at IS NOT NULL AND earlier.id < delivery.id))
  AND endpoint NOT IN (SELECT json_array_elements_text(CAST(:busy AS json)))

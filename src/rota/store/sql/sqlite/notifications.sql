-- name: delivery_due
SELECT id, run_id, handle, event, target, own, endpoint, status, attempts, next_at, created_at, finished_at, answer, error
FROM delivery
WHERE next_at <= :now
  AND endpoint NOT IN (SELECT value FROM json_each(:busy))
  AND NOT EXISTS (SELECT 1 FROM endpoint WHERE endpoint.endpoint = delivery.endpoint AND endpoint.closed_until > :now)
ORDER BY next_at, id LIMIT :limit

-- name: delivery_next_due
-- When an endpoint is left alone, its deliveries wait for the end of that.
SELECT min(max(next_at, coalesce((SELECT closed_until FROM endpoint WHERE endpoint.endpoint = delivery.endpoint), 0)))
FROM delivery
WHERE next_at IS NOT NULL AND endpoint NOT IN (SELECT value FROM json_each(:busy))

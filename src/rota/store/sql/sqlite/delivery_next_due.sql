-- When an endpoint is left alone, its deliveries wait for the end of that.
SELECT min(max(next_at, coalesce((SELECT closed_until FROM endpoint WHERE endpoint.endpoint = delivery.endpoint), 0)))
FROM delivery
WHERE next_at IS NOT NULL AND endpoint NOT IN (SELECT value FROM json_each(:busy))

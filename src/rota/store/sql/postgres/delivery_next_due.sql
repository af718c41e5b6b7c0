-- When an endpoint is left alone, its deliveries wait for the end of that.
SELECT min(greatest(next_at, (SELECT closed_until FROM endpoint WHERE endpoint.endpoint = delivery.endpoint)))
FROM delivery
WHERE next_at IS NOT NULL AND endpoint NOT IN (SELECT json_array_elements_text(CAST(:busy AS json)))

SELECT name FROM job WHERE retired_at IS NULL ORDER BY name

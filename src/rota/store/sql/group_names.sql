SELECT DISTINCT name FROM run_group ORDER BY name

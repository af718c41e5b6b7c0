DELETE FROM abandoned WHERE epoch IN (SELECT value FROM json_each(:epochs)) RETURNING lane_id

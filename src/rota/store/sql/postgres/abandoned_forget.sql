DELETE FROM abandoned WHERE epoch = ANY (ARRAY(SELECT CAST(json_array_elements_text(CAST(:epochs AS json)) AS bigint))) RETURNING lane_id

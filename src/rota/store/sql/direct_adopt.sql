UPDATE direct_hold SET epoch = :epoch WHERE execution_id = :id AND epoch = :expected

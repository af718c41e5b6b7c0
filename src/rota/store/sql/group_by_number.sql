SELECT * FROM run_group WHERE name = :name AND number = :number ORDER BY id

SELECT * FROM run_group WHERE name = :name ORDER BY number DESC, id DESC LIMIT :limit OFFSET :offset

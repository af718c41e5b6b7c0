DELETE FROM remote_worker WHERE name = :name

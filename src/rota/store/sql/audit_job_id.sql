SELECT id FROM job WHERE name = :name

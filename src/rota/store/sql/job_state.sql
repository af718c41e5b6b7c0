SELECT state FROM job WHERE id = :id

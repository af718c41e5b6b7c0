INSERT INTO lane (key) VALUES (:key)

SELECT id FROM job WHERE mode = :mode AND quiet = :quiet

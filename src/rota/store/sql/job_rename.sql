UPDATE job SET name = :name WHERE id = :id AND retired_at IS NOT NULL

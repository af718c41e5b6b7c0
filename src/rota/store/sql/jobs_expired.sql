SELECT id FROM job WHERE expires_at <= :now AND retired_at IS NULL

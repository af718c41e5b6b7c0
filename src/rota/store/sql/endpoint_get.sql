SELECT failures, closed_until, disabled_at, error FROM endpoint WHERE endpoint = :endpoint

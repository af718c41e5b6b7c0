DELETE FROM endpoint WHERE endpoint = :endpoint

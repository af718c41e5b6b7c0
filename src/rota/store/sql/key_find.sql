SELECT digest, status, body FROM request_key WHERE caller = :caller AND key = :key AND at >= :since

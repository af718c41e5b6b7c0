SELECT epoch, kind, pid, started_at, ended_at, ending FROM process ORDER BY epoch DESC LIMIT :limit

UPDATE job SET source = :after WHERE source = :before

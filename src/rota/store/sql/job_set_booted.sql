UPDATE job SET booted = :boot WHERE id = :id

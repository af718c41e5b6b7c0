UPDATE job SET state = :state WHERE id = :id

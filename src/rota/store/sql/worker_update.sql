UPDATE worker SET name = :name, labels = :labels, host = :host, state = :state WHERE id = :id

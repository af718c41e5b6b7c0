UPDATE worker SET draining = :draining WHERE id = :id AND draining <> :draining

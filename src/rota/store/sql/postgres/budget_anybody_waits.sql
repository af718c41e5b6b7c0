SELECT 1 FROM run WHERE waiting_for = 'budget' LIMIT 1

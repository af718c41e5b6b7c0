SELECT id FROM run WHERE waiting_for = 'poll'

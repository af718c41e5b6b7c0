UPDATE run SET waiting_for = NULL, not_before = NULL WHERE waiting_for = 'poll'

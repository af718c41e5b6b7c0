SELECT min(at) FROM deadline

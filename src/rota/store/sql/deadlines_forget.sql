DELETE FROM deadline

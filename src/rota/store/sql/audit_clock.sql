-- Whether the wall clock ever went back: each step back that a process sees, also from the one before it, is noted as such (R-26).
SELECT EXISTS (SELECT 1 FROM event WHERE kind = 'clock_set_back')

UPDATE job SET backing_off_until = backing_off_until - :back WHERE backing_off_until IS NOT NULL

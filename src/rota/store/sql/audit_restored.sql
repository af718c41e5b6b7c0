SELECT max(at) FROM event WHERE kind = 'restored'

"""Files of other schedulers read into rota's own keys: pure, from text to text."""

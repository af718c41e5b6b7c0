"""Effects: what starts processes and functions, and tells how they ended. Knows nothing of the database."""

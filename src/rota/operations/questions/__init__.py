"""Questions to people and their answers."""

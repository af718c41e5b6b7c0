"""The package that document 000 names in its file."""

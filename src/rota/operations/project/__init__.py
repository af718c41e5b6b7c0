"""A project's files: locate, load, apply, edit."""

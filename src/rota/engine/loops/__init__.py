"""When it happens: objects with tasks and threads."""

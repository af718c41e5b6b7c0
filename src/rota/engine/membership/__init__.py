"""A process as a member of a project: session, locks, shutdown, control."""

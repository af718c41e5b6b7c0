"""The scheduler as a process: daemon, tick and embedded."""

"""The state of the scheduler and what needs attention."""

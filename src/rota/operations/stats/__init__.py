"""Statistics of runs: the same numbers for the commands, the HTTP API and the dashboard."""

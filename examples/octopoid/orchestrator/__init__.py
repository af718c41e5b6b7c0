"""A small orchestrator: its agents leave a pid file each, its server knows the tasks."""

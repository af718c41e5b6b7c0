"""Persistence: one store code over narrow drivers, SQL by name in `sql/`."""

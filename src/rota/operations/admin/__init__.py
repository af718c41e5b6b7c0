"""Operation of an installation: access, audit, backup, service."""

"""Work sources: where agents fetch their work items. Only the registry knows them by name."""

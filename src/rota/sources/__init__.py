"""Work sources: where agents fetch what they work on. One small module each; the core knows none of them by name."""

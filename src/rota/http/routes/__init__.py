"""The routes, by what they are about. Each parses, calls an operation, and shapes the answer."""

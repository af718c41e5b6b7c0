"""Functions over one table each, the same for both backends."""

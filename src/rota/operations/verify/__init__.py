"""The audit of a database: `rota verify`."""

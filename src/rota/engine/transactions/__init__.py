"""What happens in one transaction: plain functions of a database."""

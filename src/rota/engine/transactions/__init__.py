"""Transactions: plain functions of a database."""

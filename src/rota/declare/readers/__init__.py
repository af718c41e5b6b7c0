"""Readers of values, one module for each section or group of keys."""

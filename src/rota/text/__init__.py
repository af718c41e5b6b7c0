"""Sentences for people, made from values."""

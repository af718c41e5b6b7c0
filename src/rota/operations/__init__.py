"""The use cases that every face offers: each exists once, here."""

"""The stages and their loops: read, ask a rule, write."""

"""Simulation: the rules played on a virtual clock over a copy of the state, without database and processes."""

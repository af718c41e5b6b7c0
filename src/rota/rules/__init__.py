"""Decisions: pure functions of values and `now`. Standard library and cronsim only, no input or output."""

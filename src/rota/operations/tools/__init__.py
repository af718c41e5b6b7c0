"""The tools with which agents look at jobs and make their own: typed functions with JSON Schemas (document 004)."""

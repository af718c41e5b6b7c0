"""The tools with which agents read jobs and create their own."""

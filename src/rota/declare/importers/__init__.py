"""Import of jobs from other formats."""

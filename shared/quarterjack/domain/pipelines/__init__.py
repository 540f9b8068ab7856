"""Pipelines: tasks, which are runs, and the order in which they start."""

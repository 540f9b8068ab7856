"""Pipelines: the graph of tasks, on the page of a pipeline's run and on that of its schedule."""

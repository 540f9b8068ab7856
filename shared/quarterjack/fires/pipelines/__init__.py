"""Pipelines: the run of a pipeline advances when its tasks end."""

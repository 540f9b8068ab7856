"""Pipelines: which tasks start next, as a pure function of their graph and their ends."""

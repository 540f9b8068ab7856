"""Runs: the history, one run, those that failed for good, and the acts on them."""

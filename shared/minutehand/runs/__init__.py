"""Runs, pure: the clauses and transitions of the state machine and every decision about a run. No clock, no AWS, no randomness."""

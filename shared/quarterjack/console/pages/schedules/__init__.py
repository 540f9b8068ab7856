"""Schedules: those that a search finds, one of them, and the acts on them."""

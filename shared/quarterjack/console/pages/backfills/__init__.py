"""Backfills: those of all schedules, one of them, a new one, and the acts on them."""

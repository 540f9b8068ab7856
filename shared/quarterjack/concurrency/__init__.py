"""Threads, the request pool and rate limits; it knows nothing of schedules and runs."""

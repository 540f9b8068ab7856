"""A run's transitions, the conditions that guard them, and every decision about runs and schedules; pure."""

"""What an owner does to schedules, runs and backfills."""

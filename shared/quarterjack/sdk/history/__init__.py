"""What an owner asks about the past: runs, statistics, the archive, who did what, and why; and what runs now."""

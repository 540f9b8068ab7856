"""What belongs to a tenant itself: its profile, API keys and secrets, and its erasure."""

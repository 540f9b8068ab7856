"""Look hourly for what should be impossible, repair it and report it."""

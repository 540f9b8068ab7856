"""Real processes, watched from outside: every job notes when it was due and when it began."""

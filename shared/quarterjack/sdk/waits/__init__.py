"""What reaches runs that wait."""

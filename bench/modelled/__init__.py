"""What cannot be measured here because it takes AWS: prices, limits, and how its services behave, as tables with their sources."""

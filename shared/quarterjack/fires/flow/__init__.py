"""Permits of caps: where runs wait for them, and who sends for the next ones."""

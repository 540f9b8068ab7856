"""Submissions of one-offs: of one (``submit``), with a unique key or without."""

"""Cron expressions: from text to a pattern of wall-clock seconds."""

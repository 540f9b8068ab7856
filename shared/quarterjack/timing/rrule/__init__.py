"""Recurrence rules (RFC 5545): from text to a pattern of wall-clock seconds."""

"""Fires over time: timeline, calendar, and the fires of a span."""

"""Processes with a short lease, and jobs that crash them: what takes a minute a crash in production takes seconds here."""

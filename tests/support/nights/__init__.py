"""Nights: an installation at virtual minutes over the real handlers, its faults, and an operator who follows a runbook."""

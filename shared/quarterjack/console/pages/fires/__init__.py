"""Fires over time: what ran, what runs, and what is due."""

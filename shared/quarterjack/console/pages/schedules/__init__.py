"""Schedules: the list, one schedule, its form, and the actions on schedules."""

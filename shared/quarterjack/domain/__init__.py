"""Frozen values: names, instants, schedules, runs, jobs, queues and their policies."""

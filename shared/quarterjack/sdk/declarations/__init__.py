"""Schedules that are declared in code or in a file: ``declared`` compares and carries out, ``applied`` does so for workers that start."""

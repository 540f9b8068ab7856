"""Declared schedules: the fields of a declaration, files of declarations, and the plan of changes.

Pure functions, without a clock or AWS. ``sdk/declarations/declared.py`` carries the plan out.
"""

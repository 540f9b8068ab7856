"""Declared schedules: the fields of a declaration, files of declarations, and the plan of changes.

Pure but for the reading and writing of YAML text: no clock, no cloud. ``sdk/declared.py`` brings about what is decided here.
"""

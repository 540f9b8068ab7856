"""Historian: from the stream of the table of runs to the history's pages, the archive and outgoing events. It changes no run.

Begin with ``deliver``.
"""

"""Importers convert schedules of other systems: crontabs, EventBridge, Kubernetes, Celery.

One module a source, each a pure mapping from text (or objects) to an ``Import``: the schedules as words of ``minutehand.apply``, and a
report that names every line of the source as taken over exactly, with a difference, or not at all. Nothing here reads or writes a
file, and what an ``Import`` holds has been read back by the reader that ``minutehand apply`` uses.
"""

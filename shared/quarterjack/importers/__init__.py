"""Importers convert schedules of other systems: crontabs, EventBridge, Kubernetes, Celery.

One module a source. Each is a pure function from text (or objects) to an ``ImportReport``: the schedules as words of
``quarterjack.apply``, and for each line of the source whether it was converted exactly, with differences, or not. Nothing here reads or
writes a file. Every schedule of a report has been parsed by the reader that ``quarterjack apply`` uses.
"""

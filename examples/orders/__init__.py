"""A small application: an order shop with a nightly report, reminders and a stock import.

``jobs.py`` is what its workers load (``quarterjack worker --jobs examples.orders``), ``shop.py`` what its web application calls,
``schedules.py`` what its deployment runs.
"""

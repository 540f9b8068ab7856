"""Past fires that have no run, executed with bounded concurrency.

Reading order: ``state/backfill.py`` (the record and its decisions), ``plan``, ``control`` (what the owner and the ticker call),
``advance`` (its record, and what moves it on).
"""

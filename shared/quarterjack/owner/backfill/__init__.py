"""Past fires that have no run, executed with bounded concurrency.

Reading order: ``state/backfill.py`` (the record and its decisions), ``plan``, ``control`` (what the owner and the ticker call),
``advance`` (what moves it on), ``records`` (what is stored).
"""

"""Past fires that have no run, executed with bounded concurrency.

Reading order: ``state/backfill.py`` (the record and its decisions), ``plan``, ``control`` (what the owner calls), ``advance`` (what
moves a backfill on), ``stop``, ``timer`` (the ticker's part), ``records``.
"""

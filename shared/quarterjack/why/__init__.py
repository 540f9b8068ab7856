"""Why: why a fire ran, ran late or did not run, in sentences with their sources.

Only ``evidence`` reads; the rest is pure. ``explain`` makes an ``Answer`` from ``Facts``: ``no_run`` about a fire without a row in the
ledger, ``under_way`` and ``ended`` about a run, ``delay`` about the time before its start, ``timeline`` about its schedule.
"""

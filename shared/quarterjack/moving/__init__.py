"""Move a tenant or an installation: write all that it has to a file, read such a file into another one, and end schedules at an instant.

    there   dump ──► file ──► load   here
    there   end at T                 here   load from T

``file`` and ``items`` know the form of the file, ``dump`` and ``history`` read and write the stores, ``check`` finds what is in the way
before ``load`` writes. ``docs/reference/dump.md`` documents the form.
"""

"""The extra yaml: schedules in a file."""

from __future__ import annotations

from quarterjack.apply.document import read, write

TEXT = """
schedules:
  nightly:
    job: reports.nightly
    expression: "30 2 * * *"
"""
(document,) = read(TEXT, "schedules.yaml")
assert read(write([document]), "again.yaml")[0].declarations == document.declarations

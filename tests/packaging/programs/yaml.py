"""The extra yaml: schedules in a file."""

from __future__ import annotations

from quarterjack.apply.document import read, write_words

TEXT = """
schedules:
  nightly:
    job: reports.nightly
    expression: "30 2 * * *"
"""
(document,) = read(TEXT, "schedules.yaml")
assert [declared.name for declared in document.declarations] == ["nightly"]
assert write_words({"job": "reports.nightly", "paused": True}) == "job: reports.nightly\npaused: true\n"

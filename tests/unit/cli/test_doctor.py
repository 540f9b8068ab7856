"""``quarterjack doctor`` as one types it; what it finds is tested in tests/unit/doctor."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from quarterjack import Settings

from tests.support.command_line import Say, speaker

CHECKS = {"configuration", "access", "tables", "queues", "bucket", "clock", "ticker", "chains", "backlog"}


@pytest.mark.cloud
def test_for_people_and_for_programs(said: Say) -> None:
    said("schedules", "create", "s", "j", "0 9 * * *")
    found = said("--json", "doctor").json
    assert {one["check"] for one in found} >= CHECKS
    assert "fail" not in {one["verdict"] for one in found}
    shown = said("doctor")
    assert shown.code == 0
    *_, last = shown.out.splitlines()
    counts = Counter(one["verdict"] for one in found)
    assert last == f"{counts['ok']} checks passed, {counts['warn']} warnings, 0 problems"


@pytest.mark.cloud
def test_what_is_wrong_has_a_remedy_and_a_code(
    local_settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = speaker(replace(local_settings, prefix="elsewhere"), monkeypatch, capsys)
    told = elsewhere("--json", "doctor")
    failed = [one for one in map(json.loads, told.out.splitlines()) if one["verdict"] == "fail"]
    assert told.code == 1
    assert failed
    assert all(one["remedy"] for one in failed)
    assert "→" in elsewhere("doctor").out


@pytest.mark.cloud
def test_jobs_that_cannot_be_imported(said: Say) -> None:
    told = said("doctor", "--jobs", "no_such_package")
    assert told.code == 1
    assert "no_such_package" in told.out

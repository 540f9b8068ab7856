"""The waits of ``make deploy-local`` say what they wait for, since when, what they saw last, and where the log is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infra import local_proof
from infra.local_proof import Waits, _is_not, _logged, _succeeded
from infra.local_stack import keep_logs

LOG = Path("cloud.log")


def test_a_wait_tells_its_progress_and_ends_with_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_proof, "PROGRESS", 0)
    monkeypatch.setattr(local_proof, "LOOK", 0)
    said, states = list[str](), ["0 runs", "2 runs", None]
    Waits(patience=60, log=LOG, say=said.append).until("three runs", lambda: states.pop(0))
    assert [text.strip() for text in said] == [
        "waiting for three runs, 0 s of 60: 0 runs; log: cloud.log",
        "waiting for three runs, 0 s of 60: 2 runs; log: cloud.log",
    ]
    assert states == []


def test_a_wait_in_vain_names_the_last_state_that_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    times, seen = iter([0.0, 5.0, 11.0]), iter(["QUEUED", "RUNNING"])
    monkeypatch.setattr(local_proof, "time", SimpleNamespace(monotonic=lambda: next(times), sleep=lambda _: None))
    with pytest.raises(TimeoutError, match=r"the run: not within 10 s; last seen: RUNNING"):
        Waits(patience=10, log=LOG, say=lambda _: None).until("the run", lambda: next(seen))


def test_what_is_seen_is_the_state_and_not_that_something_is_missing() -> None:
    runs: Any = [SimpleNamespace(state="SUCCEEDED"), SimpleNamespace(state="QUEUED"), SimpleNamespace(state="QUEUED")]
    assert _succeeded(runs) == "runs that were due: 2 QUEUED, 1 SUCCEEDED"
    assert _succeeded(runs[:1] * 3) is None
    assert _succeeded([]) == "runs that were due: none"
    paused: Any = "PAUSED"
    assert _is_not(paused, paused) is None
    lines = {"undertaker": ["first", '{"message":"letter.unreadable"}'], "ticker": []}
    found: Any = SimpleNamespace(lines=lambda part, word="": [line for line in lines[part] if word in line])
    assert _logged(found, "undertaker", "letter")() is None
    assert _logged(found, "undertaker", "dead")() == (
        """no 'dead' in its log, which ends: {"message":"letter.unreadable"}"""
    )
    assert _logged(found, "ticker", "dead")() == "its log is empty"


def test_after_a_failure_the_logs_are_in_files_that_stay(tmp_path: Path) -> None:
    cloud: Any = SimpleNamespace(log=tmp_path / "cloud.log")
    cloud.log.write_text("started\n")
    functions: Any = SimpleNamespace(parts=lambda: ["ticker"], lines=lambda part: [part, "tick.done"])
    kept = keep_logs(cloud, functions, tmp_path / "kept")
    assert {file.name: file.read_text() for file in kept} == {
        "cloud.log": "started\n",
        "ticker.log": "ticker\ntick.done\n",
    }
    assert [file.name for file in keep_logs(cloud, None, tmp_path / "none")] == ["cloud.log"]

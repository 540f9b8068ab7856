"""Listings on a terminal of 80 columns."""

from __future__ import annotations

import io
from dataclasses import dataclass

import pytest
from minutehand.cli.installation import audit, workers
from minutehand.cli.shell import Shell, console
from minutehand.settings import Settings

ARN = "iam:arn:aws:sts::123456789012:assumed-role/DeploymentPipelineOfTheTeam/alice.anderson@acme.example"


@dataclass(frozen=True)
class Line:
    """A row with values as long as they come."""

    at: str = "2026-11-22T16:00:00Z"
    act: str = "cancel-backfill"
    target: str = "acme/a-schedule-with-a-long-name-of-its-own#000001774569600"
    actor: str = ARN
    via: str = "console"
    before: int = 100
    after: int = 101
    reason: str = "INC-4711: the database is moved to another region over night"
    name: str = "ip-10-0-131-17.eu-west-1.compute.internal-4711"
    state: str = "VANISHED"
    host: str = "ip-10-0-131-17.eu-west-1.compute.internal"
    queues: str = "default 16, reports 4, mail 8, imports 2"
    runs: str = "acme/report#000001774569600"
    last_seen_at: str = "2026-11-22T16:00:00Z"
    version: str = "0.1.0"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, out: io.StringIO, width: int, *, of: str = "audit") -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout", out)
    console.cache_clear()
    columns, narrow = (audit._LISTED, audit._NARROW) if of == "audit" else (workers._COLUMNS, workers._NARROW)
    Shell(Settings()).list([Line(), Line(actor="app:bob", reason="short", target="acme")], columns, narrow=narrow)
    console.cache_clear()
    return [line.replace("\x1b[1m", "").replace("\x1b[0m", "") for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("of", ["audit", "workers"])
def test_a_listing_fits_eighty_columns(monkeypatch: pytest.MonkeyPatch, of: str) -> None:
    lines = shown(monkeypatch, Terminal(), 80, of=of)
    assert len(lines) == 3
    assert max(map(len, lines)) <= 80


def test_an_actor_is_cut_to_its_tail_and_a_short_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    _, first, second = shown(monkeypatch, Terminal(), 80)
    assert "ple" in first
    assert "arn:" not in first
    assert "app:bob" in second
    _, first, _ = shown(monkeypatch, Terminal(), 230)
    assert "…DeploymentPipelineOfTheTeam/alice.anderson@acme.example" in first, "whole where there is room"


def test_a_wide_terminal_and_a_pipe_show_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for lines in (shown(monkeypatch, Terminal(), 400), shown(monkeypatch, io.StringIO(), 80)):
        assert ARN in lines[1]
        assert Line.reason in lines[1]
        assert "console" in lines[1]

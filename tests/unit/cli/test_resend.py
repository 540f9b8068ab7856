"""``quarterjack resend``: what it prints, and how it goes on after an end or an error."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from quarterjack import Scheduler
from quarterjack.cli.app import run
from quarterjack.owner.runs import resend as resending

from tests.support.scenes.world import Faults, World, fails


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """An installation in memory, from which five one-offs were purged."""
    world = World()
    for _ in range(5):
        world.scheduler.submit("note", {})
    world.memory.work.purge()
    monkeypatch.setattr("quarterjack.cli.shell.Shell.scheduler", world.scheduler)
    monkeypatch.setattr("quarterjack.cli.typed.utc_now", world.now)
    return world


def test_a_dry_run_says_how_many_would_go_to_which_queue(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["resend", "--all-tenants", "--dry-run"]) == 0
    assert capsys.readouterr().out == "           5  would be sent to queue default\n"
    assert len(world.memory.work) == 0


def test_what_is_sent_is_counted(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--json", "resend", "--rate", "1000", "--due-before", "+1m"]) == 0
    told = json.loads(capsys.readouterr().out)
    expected: dict[str, Any] = {"sent": {"default": 5}, "refused": {}, "queued": 0, "unread": 0, "dry_run": False}
    assert told == {**expected, "cursor": None, "count": 5}
    assert len(world.memory.work) == 5


def test_the_printed_cursor_goes_on(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["resend", "--all-tenants", "--due-before", "now"]
    world.wait(1)
    assert run([*options, "--limit", "2"]) == 0
    said = capsys.readouterr()
    assert said.out == "           2  sent to queue default\n"
    (cursor,) = re.findall(r"--cursor '(.*)' goes on", said.err.replace("\n", ""))
    world.wait(60)
    assert run([*options, "--cursor", cursor]) == 0
    assert capsys.readouterr().out == "           3  sent to queue default\n"
    assert len(world.memory.work) == 5


def test_after_an_error_it_says_how_to_go_on(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = Faults().at("unfinished", before=fails, times=None, skip=resending.SEGMENTS)
    broken = Scheduler("acme", services=world.process(hook), clock=world.clock)
    monkeypatch.setattr(resending, "ROWS", 1)
    monkeypatch.setattr("quarterjack.cli.shell.Shell.scheduler", broken)
    assert run(["resend", "--all-tenants", "--rate", "1000"]) != 0
    said = capsys.readouterr().err.replace("\n", " ")
    assert re.search(r"warning: \d messages were sent; --cursor '.*' goes on .*error: ", said)


def test_what_a_queue_refuses_is_said(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = Faults().at("send", before=fails, times=None)
    refused = Scheduler("acme", services=world.process(hook), clock=world.clock)
    monkeypatch.setattr("quarterjack.cli.shell.Shell.scheduler", refused)
    assert run(["resend", "--all-tenants"]) == 0
    said = capsys.readouterr()
    assert said.out == "           5  not accepted by queue default\n"
    assert "some were left out" in said.err


def test_a_wrong_option_is_named_as_it_was_typed(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    del world
    assert run(["resend", "--queue", "gpus"]) == 1
    assert capsys.readouterr().err.startswith("error: --queue='gpus': is not a queue of this installation")

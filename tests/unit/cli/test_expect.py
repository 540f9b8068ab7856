"""A search that finds nothing says so, and with --expect that is exit code 3; and which commands take --expect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from quarterjack.cli.app import run, whole
from quarterjack.cli.exits import ExitCode

from tests.support.scenes.world import World

SEARCHES = {
    *("schedules list", "schedules bulk", "schedules backfill", "backfills list", "backfills runs"),
    *(
        "runs list",
        "runs bulk",
        "runs cancel",
        "runs logs",
        "dead list",
        "dead redrive",
        "dead purge",
        "stats",
        "archive read",
    ),
    "resend",
    *(
        "queues list",
        "pipelines list",
        "workers list",
        "jobs list",
        "audit list",
        "export",
        "tenants list",
        "keys list",
        "secrets list",
        "breakers list",
        "versions list",
        "restore undecided",
    ),
}


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> World:
    """Commands work on an installation in memory, with one schedule."""
    world = World()
    world.scheduler.create_schedule("s", "note", "0 0 1 1 *", tags={"team": "a"})
    monkeypatch.setattr("quarterjack.cli.shell.Shell.scheduler", world.scheduler)
    monkeypatch.setattr("quarterjack.cli.typed.utc_now", world.now)
    return world


def leaves(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, child in getattr(command, "commands", {}).items():
        yield f"{path} {name}".strip(), child
        yield from leaves(child, f"{path} {name}".strip())


def test_these_commands_search_and_every_listing_is_one() -> None:
    found = {path: {name for one in child.params for name in one.opts} for path, child in leaves(whole())}
    assert {path for path, options in found.items() if "--expect" in options} == SEARCHES
    assert {path for path in found if path.split()[-1] in ("list", "bulk", "redrive", "purge")} <= SEARCHES


FRUITLESS = [
    ("schedules list --prefix nothing", "no schedule matches"),
    ("pipelines list --prefix nothing", "no pipeline matches"),
    ("schedules bulk pause --prefix nothing --yes", "no schedule matches"),
    ("schedules bulk pause --prefix nothing --dry-run", "no schedule matches"),
    ("schedules backfill s -2h -1h", "there is nothing to run"),
    ("backfills list s", "there is no such backfill"),
    ("runs list s", "no run matches"),
    ("runs cancel --schedule s --dry-run", "no run matches that has not ended"),
    ("runs cancel --schedule s --yes", "no run matches that has not ended"),
    ("dead list", "no dead run matches; without --since only the last 24 hours"),
    ("dead redrive --job note", "no dead run matches"),
    ("versions list", "no worker has registered a version"),
    ("resend --all-tenants --dry-run", "no run should have a message in a queue now"),
    ("restore undecided", "no run waits for a decision"),
    ("dead purge --job note --until -1h --yes", "no dead run matches"),
    ("audit list --actor nobody", "no audit entry matches"),
    ("export --prefix nothing", "no schedule matches"),
]


@pytest.mark.parametrize(("words", "said"), FRUITLESS)
def test_nothing_is_said_and_may_be_an_error(
    memory: World, words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words.split()) == ExitCode.DONE
    assert said in capsys.readouterr().err
    assert run([*words.split(), "--expect"]) == ExitCode.NOT_FOUND
    assert f"error: {said}" in capsys.readouterr().err
    assert run(["--json", *words.split(), "--expect"]) == ExitCode.NOT_FOUND
    problem = json.loads(capsys.readouterr().err)
    assert (problem["error"], problem["exit_code"]) == ("NothingMatched", 3)
    assert said in problem["message"]


@pytest.mark.parametrize("words", ["schedules list", "schedules bulk pause --tag team=a --yes", "export"])
def test_what_matches_is_no_error(memory: World, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words.split(), "--expect"]) == ExitCode.DONE
    assert "matches" not in capsys.readouterr().err


def test_the_end_of_a_listing_is_not_nothing(memory: World, capsys: pytest.CaptureFixture[str]) -> None:
    memory.scheduler.create_schedule("t", "note", "0 0 1 1 *")
    run(["schedules", "list", "--limit", "1"])
    cursor = capsys.readouterr().err.partition("--cursor '")[2].partition("'")[0]
    memory.scheduler.delete_schedule("t")
    assert run(["schedules", "list", "--expect", "--cursor", cursor]) == ExitCode.DONE
    assert "nothing further" in capsys.readouterr().err

"""``quarterjack dead …`` as one types it, against a fresh installation."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quarterjack import Registry, Retry, Scheduler, Settings
from quarterjack.aws import Client
from quarterjack.errors import InvalidInput
from quarterjack.owner.app_versions import register
from quarterjack.services import connect, system_clock
from quarterjack.testing.process import Hand, bury_all, make_worker

from tests.support import command_line

pytestmark = pytest.mark.cloud

Say = Callable[..., str]


def told(say: Say, *words: str) -> list[Any]:
    """What a command prints as JSON lines."""
    return [json.loads(line) for line in say("--json", *words).splitlines()]


@pytest.fixture
def dead(local_settings: Settings) -> list[str]:
    """Three runs that failed for good, oldest first."""
    jobs, services = Registry(), connect(local_settings)
    jobs.job("pay", retry=Retry(max_attempts=1))(_fail)
    scheduler = Scheduler(jobs=jobs, services=services, settings=local_settings)
    worker = make_worker(services, jobs, system_clock, wait=lambda seconds: None, chance=random.Random(1))
    ids = []
    for number in range(3):
        ids.append(scheduler.submit("pay", {"n": number}).id)
        while not Hand(worker=worker).work():
            pass
    buried = 0
    while buried < 3:
        buried += bury_all(services, system_clock)
    return ids


def _fail(ctx: object, payload: object) -> None:
    raise TimeoutError("too [bold]slow")


def test_the_list(say: Say, dead: list[str]) -> None:
    assert [run["id"] for run in told(say, "dead", "list")] == dead[::-1]
    shown = say("dead", "list")
    assert [word in shown for word in (*dead, "TimeoutError", "too [bold]slow", "pay")] == [True] * 6
    assert told(say, "dead", "list", "--error-type", "KeyError") == []
    assert told(say, "dead", "list", "--job", "pay", "--limit", "1")[0]["id"] == dead[2]
    assert "there are more" in say("dead", "list", "--limit", "1")
    yesterday = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    assert len(told(say, "dead", "list", "--since", yesterday)) == 3
    assert told(say, "dead", "list", "--since", "2026-01-01T00:00:00Z", "--until", yesterday) == []


@pytest.mark.parametrize("since", [(), ("--since", "-1h"), ("--since", "-2h", "--until", "now")])
def test_the_cursor_that_is_printed_continues_with_the_same_words(
    say: Say, dead: list[str], since: tuple[str, ...]
) -> None:
    found, cursor = list[str](), tuple[str, ...]()
    for _ in dead:
        lines = say("--json", "dead", "list", "--limit", "1", *since, *cursor).splitlines()
        found.append(json.loads(lines[0])["id"])
        text = say("dead", "list", "--limit", "1", *since, *cursor)
        cursor = ("--cursor", text.partition("--cursor '")[2].partition("'")[0])
    assert (found, cursor) == (dead[::-1], ("--cursor", ""))


def test_a_cursor_of_other_times_is_refused_with_what_to_do(said: command_line.Say, dead: list[str]) -> None:
    first = said("dead", "list", "--limit", "1", "--since", "-1h")
    cursor = (first.out + first.err).partition("--cursor '")[2].partition("'")[0]
    refused = said("dead", "list", "--limit", "1", "--since", "-2h", "--cursor", cursor)
    assert refused.code == 1
    assert "pass the cursor of the page before, with the same conditions and bounds" in refused.err


def test_redrive_one_then_all(say: Say, dead: list[str]) -> None:
    (dry,) = told(say, "dead", "redrive", "--job", "pay", "--dry-run")
    assert (len(dry["runs"]), dry["dry_run"]) == (3, True)
    (one,) = told(say, "dead", "redrive", dead[0], "--payload", '{"n": 9}')
    again = one["runs"][0]["redriven_as"]
    (shown,) = told(say, "runs", "show", again)
    assert (shown["replay_of"], shown["payload"]) == (dead[0], {"n": 9})
    assert "2 are repeated, 0 cannot be" in say("dead", "redrive", "--job", "pay", "--rate", "1000")
    assert told(say, "dead", "list") == []
    assert again in say("dead", "list", "--include-redriven")


def test_redrive_keeps_the_application_versions_if_asked_to(
    say: Say, dead: list[str], local_settings: Settings
) -> None:
    """These runs were sent before there was a version."""
    register("1.0", 1.0, connect(local_settings), system_clock())
    for run_id, options, expected in ((dead[0], ["--as-it-was"], None), (dead[1], [], "1.0")):
        (one,) = told(say, "dead", "redrive", run_id, *options)
        (shown,) = told(say, "runs", "show", one["runs"][0]["redriven_as"])
        assert shown["app_version"] == expected


def test_redrive_tells_that_there_are_more(say: Say, dead: list[str]) -> None:
    assert "1 are repeated, 0 cannot be; there are more" in say("dead", "redrive", "--job", "pay", "--limit", "1")


def test_redrive_tells_what_cannot_be_repeated(say: Say, dead: list[str], local_settings: Settings) -> None:
    owner, _, key = dead[1].partition("#")
    runs = Client("dynamodb", local_settings)
    runs.call("delete_item", TableName=local_settings.table("runs"), Key={"owner": {"S": owner}, "key": {"S": key}})
    shown = say("dead", "redrive", "--job", "pay")
    assert "2 are repeated, 1 cannot be" in shown
    assert f"not repeated: RUN='{dead[1]}': there is no such run, or its retention is over" in shown


def test_purge(say: Say, dead: list[str]) -> None:
    assert told(say, "dead", "purge", "--job", "pay", "--dry-run") == [{"count": 3, "dry_run": True}]
    assert "3 would be removed from the list" in say("dead", "purge", "--job", "pay", "--dry-run")
    assert "3 are removed from the list" in say("dead", "purge", "--job", "pay", "--yes")
    assert told(say, "dead", "list") == []


def test_purge_of_one_run(say: Say, dead: list[str]) -> None:
    assert "1 are removed from the list" in say("dead", "purge", dead[0], "--yes")
    assert dead[0] not in [one["id"] for one in told(say, "dead", "list")]
    assert len(told(say, "dead", "list")) == len(dead) - 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("redrive",), "--since: is missing"),
        (("purge",), "--until: is missing"),
        (("list", "--since", "tuesday"), "since='tuesday': is not a date and time"),
        (("list", "--since", "2026-01-01T00:00:00"), "since=.*has no time zone"),
        (("redrive", "x"), "RUN='x'"),
        (("redrive", "--job", "x", "--payload", "{"), "payload='{': is not JSON"),
    ],
)
def test_bad_arguments_are_refused_by_name(say: Say, words: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        say("dead", *words)

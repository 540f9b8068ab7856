"""``quarterjack schedules bulk …`` as one types it."""

from __future__ import annotations

import re
import signal
import subprocess
from datetime import UTC, datetime, timedelta

import pytest
from quarterjack import Scheduler, Settings

from tests.support.command_line import Say, typed

pytestmark = pytest.mark.cloud

NAMES = [f"a-{number}" for number in range(6)]


@pytest.fixture(autouse=True)
def schedules(local_settings: Settings) -> None:
    owner = Scheduler(settings=local_settings)
    for name in (*NAMES, "b"):
        owner.create_schedule(name, "j", "0 9 1 1 *", tags={"team": name[0]})


def states(said: Say) -> dict[str, str]:
    return {one["name"]: one["state"] for one in said("--json", "schedules", "list").json}


def test_it_says_how_many_asks_and_does(said: Say) -> None:
    planned = said("schedules", "bulk", "pause", "--tag", "team=a", "--dry-run")
    assert planned.out.splitlines() == NAMES
    assert "6 would be done" in planned.err
    refused = said("schedules", "bulk", "pause", "--tag", "team=a")
    assert (refused.code, set(states(said).values())) == (8, {"ACTIVE"})
    assert "Pause 6 schedules" in refused.err
    done = said("schedules", "bulk", "pause", "--tag", "team=a", "--reason", "moving", "--yes")
    assert (done.code, done.out) == (0, "")
    assert "pause: 6 done, 0 failed" in done.err
    assert states(said) == dict.fromkeys(NAMES, "PAUSED") | {"b": "ACTIVE"}
    assert said("--json", "schedules", "get", "a-0").json[0]["reason"] == "moving"


def test_a_pause_may_have_an_end(said: Say) -> None:
    assert said("schedules", "bulk", "pause", "--tag", "team=a", "--until", "2h", "--yes").code == 0
    ends = {one["resume_at"] for one in said("--json", "schedules", "list", "--tag", "team=a").json}
    (end,) = map(datetime.fromisoformat, ends)
    assert timedelta(minutes=110) < end - datetime.now(UTC) <= timedelta(hours=2)
    refused = said("--json", "schedules", "bulk", "resume", "--tag", "team=a", "--until", "2h", "--yes")
    assert (refused.code, refused.problem["field"]) == (1, "--until")


def test_every_action_for_programs(said: Say) -> None:
    def did(action: str, *words: str) -> list[str]:
        (result,) = said("--json", "schedules", "bulk", action, "--prefix", "a-", "--yes", *words).json
        assert (result["action"], result["failed"], result["cursor"], result["dry_run"]) == (action, {}, None, False)
        return list(result["done"])

    assert did("pause") == did("resume") == NAMES
    assert did("retag", "--set", "env=prod", "--remove", "team") == NAMES
    assert [one["tags"] for one in said("--json", "schedules", "list", "--prefix", "a-").json] == [{"env": "prod"}] * 6
    for _ in range(2):
        assert did("trigger", "--payload", "[1]", "--client-token", "once") == NAMES
    assert len(said("--json", "runs", "list", "a-0").json) == 1, "the token triggers it once"
    assert did("delete") == NAMES
    assert states(said) == {"b": "ACTIVE"}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("pause",), "--prefix"),
        (("stop", "--prefix", "a"), "ACTION"),
        (("resume", "--prefix", "a", "--reason", "x"), "--reason"),
        (("retag", "--prefix", "a"), "--set"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_done(
    said: Say, words: tuple[str, ...], problem: str
) -> None:
    refused = said("--json", "schedules", "bulk", *words, "--yes")
    assert (refused.code, refused.problem["field"]) == (1, problem)


def test_one_that_fails_stops_no_other_and_the_code_tells(said: Say) -> None:
    many = [word for number in range(50) for word in ("--tag", f"t{number}=x")]
    assert said("schedules", "update", "a-3", *many).code == 0
    done = said("schedules", "bulk", "retag", "--prefix", "a-", "--set", "one-more=x", "--yes")
    assert done.code == 1
    assert "failed: a-3: --set=" in done.out
    assert "retag: 5 done, 1 failed" in done.err


def test_ctrl_c_ends_it_between_two_and_the_cursor_goes_on(said: Say, local_settings: Settings) -> None:
    words = ("schedules", "bulk", "pause", "--prefix", "a-", "--yes", "--rate", "0.2")
    acting = typed(local_settings, *words, stderr=subprocess.PIPE)
    while "PAUSED" not in states(said).values():
        assert acting.poll() is None
    acting.send_signal(signal.SIGINT)
    _, err = acting.communicate(timeout=60)
    assert acting.returncode == 0, err
    (cursor,) = re.findall(r"--cursor '(.*)' continues", err)
    paused = [name for name, state in states(said).items() if state == "PAUSED"]
    assert paused == NAMES[: NAMES.index(cursor.partition("~")[0]) + 1] != NAMES
    assert said(*words[:-2], "--cursor", cursor).code == 0
    assert states(said) == dict.fromkeys(NAMES, "PAUSED") | {"b": "ACTIVE"}

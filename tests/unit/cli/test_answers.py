"""What commands answer to people: a creation in two lines, due times while one follows, a success without its earlier failures."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from quarterjack import Context
from quarterjack.cli.app import run
from quarterjack.errors import Unavailable
from quarterjack.testing import Crash

from tests.support.scenes.world import World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Commands work on an installation in memory."""
    world = World(at=datetime.now(UTC))
    monkeypatch.setattr("quarterjack.cli.shell.Shell.scheduler", world.scheduler)
    return world


@pytest.fixture
def lines(world: World, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    def answer(*words: str, code: int = 0) -> list[str]:
        capsys.readouterr()
        assert run(words) == code
        return capsys.readouterr().out.splitlines()

    return answer


class TestCreate:
    def test_two_lines_with_the_next_fire(self, lines: Callable[..., list[str]]) -> None:
        soon = datetime.now(UTC) + timedelta(days=1, hours=6, minutes=1)
        first, second = lines("schedules", "create", "s", "note", f"at({soon:%Y-%m-%dT%H:%M:%S})")
        assert first == f"created s: note, at({soon:%Y-%m-%dT%H:%M:%S}), UTC"
        assert re.fullmatch(rf"next fire {soon:%a %Y-%m-%d %H:%M}(:\d\d)? UTC \(in 1 d 6 h\)", second)

    def test_in_the_zone_of_the_schedule(self, lines: Callable[..., list[str]]) -> None:
        _, second = lines("schedules", "create", "s", "note", "0 9 * * *", "--timezone", "America/New_York")
        assert re.fullmatch(r"next fire \w{3} \d{4}-\d\d-\d\d 09:00 E[SD]T \(in .*\)", second)

    def test_one_that_was_paused_since(self, lines: Callable[..., list[str]]) -> None:
        words = ("schedules", "create", "s", "note", "0 9 * * *", "--client-token", "t")
        lines(*words)
        lines("schedules", "pause", "s")
        assert lines(*words)[1:] == ["no next fire: it is not ACTIVE any more"]

    def test_it_is_created_all_the_same_if_its_fire_cannot_be_read(
        self, world: World, lines: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise Unavailable("no answer")

        monkeypatch.setattr(type(world.scheduler), "preview", fail)
        created, unknown = lines("schedules", "create", "s", "note", "0 9 * * *")
        assert created.startswith("created s")
        assert unknown == "next fire unknown: no answer"

    def test_json_has_the_schedule(self, lines: Callable[..., list[str]]) -> None:
        (line,) = lines("--json", "schedules", "create", "s", "note", "0 9 * * *")
        assert json.loads(line)["revision"] == 1


class TestResume:
    def test_two_lines_with_the_next_fire(self, lines: Callable[..., list[str]]) -> None:
        lines("schedules", "create", "s", "note", "0 9 * * *")
        lines("schedules", "pause", "s")
        first, second = lines("schedules", "resume", "s")
        assert first == "s is ACTIVE: note, 0 9 * * *, UTC"
        assert re.fullmatch(r"next fire \w{3} \d{4}-\d\d-\d\d 09:00 UTC \(in .*\)", second)

    def test_json_has_the_schedule(self, lines: Callable[..., list[str]]) -> None:
        lines("schedules", "create", "s", "note", "0 9 * * *")
        lines("schedules", "pause", "s")
        (line,) = lines("--json", "schedules", "resume", "s")
        assert json.loads(line)["state"] == "ACTIVE"


class TestDeclared:
    def test_a_change_by_hand_says_that_the_next_apply_takes_it_back(
        self, world: World, capsys: pytest.CaptureFixture[str]
    ) -> None:
        world.scheduler.upsert_schedule("s", "note", "0 9 * * *", managed_by="acme.jobs")
        assert run(("schedules", "update", "s", "--expression", "0 10 * * *")) == 0
        assert "s is declared by acme.jobs: the next `quarterjack apply` of that" in capsys.readouterr().err

    def test_nothing_is_said_of_one_that_nobody_declares(
        self, world: World, capsys: pytest.CaptureFixture[str]
    ) -> None:
        world.scheduler.create_schedule("s", "note", "0 9 * * *")
        assert run(("schedules", "update", "s", "--expression", "0 10 * * *")) == 0
        assert "declared" not in capsys.readouterr().err


class TestShow:
    @pytest.fixture
    def recovered(self, world: World) -> str:
        """A run that failed twice and succeeded."""

        def fail(ctx: Context) -> None:
            if ctx.attempt < 3:
                raise ConnectionError("the post office is closed")

        world.during = fail
        found = world.scheduler.submit("note", {"to": "Ada"})
        world.live(300)
        assert world.scheduler.get_run(found.id).state == "SUCCEEDED"
        return found.id

    def test_a_success_shows_its_earlier_failures_in_one_line(
        self, recovered: str, lines: Callable[..., list[str]]
    ) -> None:
        shown = lines("runs", "show", recovered)
        assert not [line for line in shown if "post office" in line or line.startswith("error")]
        (line,) = (line for line in shown if line.startswith("failed attempts"))
        assert line.split(maxsplit=2)[2] == "2 before it, the last: ConnectionError; --attempts shows them"

    def test_a_worker_that_vanished_is_named(self, world: World, lines: Callable[..., list[str]]) -> None:
        def die(ctx: Context) -> None:
            if ctx.attempt == 1:
                raise Crash

        world.during = die
        found = world.scheduler.submit("note")
        with pytest.raises(Crash):
            world.live(1)
        world.live(300)
        assert "1 before it, the last: WorkerVanished" in "\n".join(lines("runs", "show", found.id))

    def test_with_a_flag_all_of_them(self, recovered: str, lines: Callable[..., list[str]]) -> None:
        shown = "\n".join(lines("runs", "show", recovered, "--attempts"))
        assert shown.count("the post office is closed") == 5, "the last one, each attempt's, and in the two tracebacks"
        assert "error type" in shown

    def test_json_is_whole(self, recovered: str, lines: Callable[..., list[str]]) -> None:
        (line,) = lines("--json", "runs", "show", recovered)
        assert json.loads(line)["error"] == "the post office is closed"
        assert len(json.loads(line)["failed_attempts"]) == 2

    def test_a_failure_shows_what_failed(self, world: World, lines: Callable[..., list[str]]) -> None:
        found = world.scheduler.submit("bad")
        world.live(300)
        shown = "\n".join(lines("runs", "show", found.id))
        assert "boom" in shown
        assert "error type" in shown

    def test_a_success_without_a_failure_says_nothing_of_them(
        self, world: World, lines: Callable[..., list[str]]
    ) -> None:
        found = world.scheduler.submit("note")
        world.live(10)
        shown = "\n".join(lines("runs", "show", found.id))
        assert "SUCCEEDED" in shown
        assert "fail" not in shown


def test_tail_shows_when_a_run_was_due_with_its_date_if_that_is_not_today(
    world: World, lines: Callable[..., list[str]]
) -> None:
    found = world.scheduler.submit("note")
    world.live(10)
    (line,) = lines("runs", "tail", found.id)
    assert re.match(
        rf"\d\d:\d\d:\d\dZ  due {found.due:%H:%M:%S}Z  SUCCEEDED   \d+ ms late +{re.escape(found.id)}", line
    )
    later = world.scheduler.submit("note", run_at=found.due + timedelta(days=3))
    lines("runs", "cancel", later.id)
    (line,) = lines("runs", "tail", later.id, code=12)
    assert f"due {later.due:%Y-%m-%d %H:%M:%S}Z" in line

"""``quarterjack why``: an answer that fits a terminal, and the same as JSON."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quarterjack import Context, Registry, Retry
from quarterjack.cli.app import run
from quarterjack.cli.shell import Shell
from quarterjack.testing import Harness

from tests.support.command_line import Said, Say


def _fail(ctx: Context, payload: Any) -> None:
    raise ValueError("the bank is closed")


MORNING = datetime(2026, 5, 4, 8, tzinfo=UTC)


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Harness:
    """An installation in memory, which the command line is given."""
    jobs = Registry()
    jobs.job("ok")(lambda ctx, payload: None)
    jobs.job("bad", retry=Retry(max_attempts=2))(_fail)
    made = Harness(jobs, at=MORNING, tenant="acme")
    made.scheduler.acting_as("ada").create_schedule("daily", "ok", "0 11 * * *", timezone="Europe/Berlin")
    monkeypatch.setattr(Shell, "scheduler", made.scheduler)
    return made


@pytest.fixture
def say(harness: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    monkeypatch.setenv("COLUMNS", "80")

    def type_in(*words: str) -> Said:
        capsys.readouterr()
        code = run(words)
        out, err = capsys.readouterr()
        return Said(int(code), out, err)

    return type_in


def test_an_answer_fits_a_terminal(say: Say, harness: Harness) -> None:
    assert say("why", "daily", "--at", "2026-05-04T09:00:00+02:00").out == (
        "NOT CREATED  acme/daily at 2026-05-04 07:00:00Z\n"
        "\n"
        "  The schedule did not exist yet: it was created by app:ada at 2026-05-04\n"
        "  08:00:00Z.\n"
        "    (revision 1 of acme/daily)\n"
    )
    harness.advance(hours=2)
    said = say("why", "daily", "--at", "2026-05-04T11:00:00+02:00")
    assert said.out == (
        "RAN  acme/daily at 2026-05-04 09:00:00Z\n"
        "\n"
        "  It succeeded at 2026-05-04 09:00:00Z, in attempt 1 of 3, on worker. It was due\n"
        "  at 2026-05-04 09:00:00Z and started in time, at 2026-05-04 09:00:00Z.\n"
        "    (run acme/daily#001777885200000)\n"
    )
    assert said.err.split() == ["run", "acme/daily#001777885200000"]


def test_a_run_is_asked_about_by_its_id(say: Say, harness: Harness) -> None:
    harness.advance(hours=2)
    by_id = say("why", "acme/daily#001777885200000")
    assert by_id.out == say("why", "daily", "--at", "2026-05-04T09:00:00Z").out


def test_as_json(say: Say) -> None:
    (answer,) = say("--json", "why", "daily", "--at", "2026-05-04T12:00:00+02:00").json
    assert (answer["verdict"], answer["causes"], answer["run_id"]) == ("NO_FIRE", ["expression"], None)
    assert answer["at"] == "2026-05-04T10:00:00+00:00"
    assert answer["sentences"][0] == {
        "text": "The schedule has no fire at 2026-05-04 10:00:00Z, because '0 11 * * *' does not match Mon 2026-05-04 12:00:00 in "
        "Europe/Berlin.",
        "source": "computed from the rule of revision 1",
        "cause": "expression",
    }


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("why", "daily"), "has had no fire yet; wait for the first one"),
        (("why", "dialy"), "did you mean 'daily'?"),
        (("why", "daily", "--at", "nine"), "is not a date and time"),
        (("why", "acme/daily#001777885200000", "--at", "2026-05-04T09:00:00Z"), "was given with the id of a run"),
        (("why", "dialy", "--at", "2026-05-04T09:00:00Z"), "did you mean 'daily'?"),
        (("why", "other/daily#001777885200000"), "has no such run"),
    ],
)
def test_bad_input_is_refused(say: Say, words: tuple[str, ...], told: str) -> None:
    said = say(*words)
    assert said.code in (1, 3)
    assert told in said.err
    assert not said.out


def test_a_failed_run_is_told_with_the_jobs_own_traceback(say: Say, harness: Harness) -> None:
    harness.scheduler.create_schedule("pay", "bad", "30 8 * * *")
    harness.advance(hours=2)
    (run_id,) = [one.id for one in harness.scheduler.list_runs("pay").items]
    for words in (("why", "pay"), ("runs", "show", run_id)):
        said = say(*words).out
        assert "attempt 2:" in said
        trace = said.partition("attempt 2:\n")[2]
        assert trace.startswith("Traceback (most recent call last):\n")
        assert 'raise ValueError("the bank is closed")' in trace
        assert trace.rstrip().endswith("ValueError: the bank is closed")
        assert "/quarterjack/" not in trace, "no frame of ours"
        assert trace.count("File ") == 1


class TestWithoutATime:
    def test_the_last_fire_with_trouble_is_taken(self, say: Say, harness: Harness) -> None:
        harness.scheduler.create_schedule("pay", "bad", "30 8 * * *")
        harness.advance(hours=2)
        failed = harness.scheduler.list_runs("pay").items[0].due
        assert say("why", "pay").out.startswith(f"DEAD  acme/pay at {failed:%Y-%m-%d %H:%M:%S}Z")

    def test_a_skipped_one_is_trouble_and_later_ones_in_time_are_not(self, say: Say, harness: Harness) -> None:
        harness.scheduler.skip_next("daily")
        harness.advance(days=3)
        assert say("why", "daily").out.startswith("SKIPPED  acme/daily at 2026-05-04 09:00:00Z")

    def test_without_trouble_the_last_fire_that_was_due_is_taken(self, say: Say, harness: Harness) -> None:
        harness.advance(days=2)
        last = harness.scheduler.list_runs("daily", upcoming=False, newest_first=True).items[0].due
        said = say("why", "daily")
        assert said.code == 0
        assert said.out.partition("  ")[2].startswith(f"acme/daily at {last:%Y-%m-%d %H:%M:%S}Z")

    def test_a_fire_that_is_claimed_and_not_due_yet_is_none(self, say: Say, harness: Harness) -> None:
        harness.scheduler.create_schedule("soon", "ok", "* * * * *")
        assert harness.scheduler.list_runs("soon").items
        assert "has had no fire yet" in say("why", "soon").err

    def test_a_time_of_day_is_the_last_one_in_the_schedules_zone(
        self, say: Say, harness: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("quarterjack.cli.typed.utc_now", lambda: MORNING + timedelta(days=1, hours=1))
        harness.advance(days=1, hours=1)
        assert say("why", "daily", "--at", "11:00").out.startswith("RAN  acme/daily at 2026-05-05 09:00:00Z")
        assert say("why", "daily", "--at", "11:01").out.startswith("NO FIRE  acme/daily at 2026-05-04 09:01:00Z")
        assert "is not a time of day" in say("why", "daily", "--at", "25:00").err

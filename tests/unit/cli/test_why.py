"""``quarterjack why``: an answer that fits a terminal, and the same as JSON."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from quarterjack import Registry
from quarterjack.cli.app import run
from quarterjack.cli.shell import Shell
from quarterjack.testing import Harness

from tests.support.command_line import Said, Say

MORNING = datetime(2026, 5, 4, 8, tzinfo=UTC)


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Harness:
    """An installation in memory, which the command line is given."""
    jobs = Registry()
    jobs.job("ok")(lambda ctx, payload: None)
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
        (("why", "daily"), "--at: is missing; say when the fire was due"),
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

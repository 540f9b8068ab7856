"""What is done to one schedule, as one types it: pause with an end, skip the next fire, trigger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.command_line import Say

pytestmark = pytest.mark.cloud

CREATE = ("schedules", "create", "s", "j", "0 9 1 1 *")


@pytest.fixture(autouse=True)
def schedule(said: Say) -> None:
    assert said(*CREATE).code == 0


def test_a_pause_with_an_end_says_when(said: Say) -> None:
    end = (datetime.now(UTC) + timedelta(days=2)).replace(microsecond=0)
    (paused,) = said("--json", "schedules", "pause", "s", "--until", end.isoformat(), "--reason", "moving").json
    assert (paused["state"], paused["resume_at"], paused["reason"]) == ("PAUSED", end.isoformat(), "moving")
    assert "resume at" in said("schedules", "get", "s").out
    (again,) = said("--json", "schedules", "pause", "s").json
    assert (again["state"], again["resume_at"]) == ("PAUSED", None), "pausing again decides anew"
    (resumed,) = said("--json", "schedules", "resume", "s").json
    assert (resumed["state"], resumed["reason"]) == ("ACTIVE", None)


@pytest.mark.parametrize(("until", "problem"), [("soon", "is not a date and time"), ("2020-01-01T00:00:00Z", "until=")])
def test_an_end_that_is_none_is_refused(said: Say, until: str, problem: str) -> None:
    refused = said("schedules", "pause", "s", "--until", until)
    assert refused.code == 1
    assert problem in refused.err
    assert said("--json", "schedules", "get", "s").json[0]["state"] == "ACTIVE"


def test_the_next_fires_are_skipped_one_by_one(said: Say) -> None:
    (first, second) = said("--json", "schedules", "preview", "s", "--count", "2").json
    runs = [said("--json", "schedules", "skip-next", "s").json[0] for _ in range(2)]
    assert [(run["due"], run["state"], run["reason"]) for run in runs] == [
        (first, "SKIPPED", "skip_next"),
        (second, "SKIPPED", "skip_next"),
    ]
    said("schedules", "pause", "s")
    refused = said("--json", "schedules", "skip-next", "s")
    assert (refused.code, refused.problem["error"]) == (4, "Conflict")


def test_a_client_token_skips_one(said: Say) -> None:
    words = ("--json", "schedules", "skip-next", "s", "--client-token", "t")
    assert said(*words).json == said(*words).json
    lost = said("--json", "schedules", "skip-next", "s", "--expected-revision", "7")
    assert "you saw revision 7, but revision 1 is current" in lost.problem["message"]


def test_triggered_while_it_is_paused(said: Say) -> None:
    said("schedules", "pause", "s")
    (run,) = said("--json", "schedules", "trigger", "s", "--key", "k").json
    assert (run["state"], run["schedule"]) == ("QUEUED", "s")
    taken = said("--json", "schedules", "trigger", "s", "--key", "k", "--payload", "[2]")
    assert (taken.code, taken.problem["error"]) == (4, "KeyReused"), "the key has another payload"
    assert said("schedules", "trigger", "t").code == 3


def test_who_saw_another_revision_is_told_both(said: Say) -> None:
    said("schedules", "update", "s", "--payload", "1")
    for words in (("pause",), ("resume",), ("delete", "--yes"), ("update", "--payload", "2")):
        lost = said("--json", "schedules", words[0], "s", *words[1:], "--expected-revision", "1")
        assert (lost.code, lost.problem["error"]) == (4, "Conflict"), words
        assert "revision 1" in lost.problem["message"]
        assert "revision 2 is current" in lost.problem["message"]

"""``quarterjack schedules backfill`` and ``quarterjack backfills …`` as one types them."""

from __future__ import annotations

import re
import signal
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from quarterjack import Settings

from tests.support.command_line import Say, typed

pytestmark = pytest.mark.cloud

END = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=5)
SPAN = ((END - timedelta(minutes=10)).isoformat(), END.isoformat())  # ten minutely fires
BACKFILL = ("schedules", "backfill", "s", *SPAN, "--current")


@pytest.fixture(autouse=True)
def schedule(said: Say) -> None:
    assert said("schedules", "create", "s", "j", "* * * * *").code == 0


def started(said: Say, *words: str) -> str:
    """The id of a backfill that waits for workers that there are none of."""
    return str(said("--json", *BACKFILL, "--yes", *words).json[0]["id"])


def test_a_dry_run_says_how_many_and_writes_nothing(said: Say) -> None:
    (planned,) = said("--json", *BACKFILL, "--dry-run").json
    assert (planned["id"], planned["state"], planned["total"], planned["there"]) == (None, "PLANNED", 10, 0)
    assert said("--json", "backfills", "list", "s").json == []


def test_it_asks_first(said: Say) -> None:
    refused = said(*BACKFILL)
    assert refused.code == 8
    assert "Run 10 fires of s (0 of 10 have run already)" in refused.err
    assert said("--json", "backfills", "list", "s").json == []


def test_started_shown_and_listed_with_its_runs(said: Say) -> None:
    words = ("--order", "newest", "--concurrency", "3", "--payload", '{"again": true}')
    backfill = started(said, *words)
    (found,) = said("--json", "backfills", "get", "s", backfill).json
    assert (found["state"], found["order"], found["concurrency"], found["under_way"]) == ("RUNNING", "newest", 3, 3)
    assert [one["id"] for one in said("--json", "backfills", "list", "s").json] == [backfill]
    runs = said("--json", "backfills", "runs", "s", backfill).json
    last = END - timedelta(minutes=1)
    assert [run["due"] for run in runs] == [(last - timedelta(minutes=m)).isoformat() for m in (2, 1, 0)]
    assert {run["backfill"] for run in runs} == {backfill}
    assert said("--json", "runs", "show", runs[0]["id"]).json[0]["payload"] == {"again": True}
    table = said("backfills", "list", "s").out.splitlines()
    assert table[0].split() == ["id", "state", "total", "done", "skipped", "failed", "start", "end"]


def test_a_client_token_starts_one(said: Say) -> None:
    ids = {started(said, "--client-token", "t") for _ in range(2)}
    assert {one["id"] for one in said("--json", "backfills", "list", "s").json} == ids
    lost = said("--json", *BACKFILL, "--yes", "--expected-revision", "7")
    assert (lost.code, lost.problem["error"]) == (4, "Conflict")


def test_held_let_go_and_ended(said: Say) -> None:
    backfill = started(said)

    def did(word: str, *more: str) -> str:
        return str(said("--json", "backfills", word, "s", backfill, *more).json[0]["state"])

    assert (did("pause"), did("resume")) == ("PAUSED", "RUNNING")
    assert said("backfills", "cancel", "s", backfill).code == 8, "it asks first"
    assert did("get") == "RUNNING"
    assert did("cancel", "--yes") == "CANCELLED"
    assert {run["state"] for run in said("--json", "backfills", "runs", "s", backfill).json} == {"CANCELLED"}
    assert said("backfills", "resume", "s", backfill).code == 4, "it has ended, and stays so"


def test_what_is_not_there(said: Say) -> None:
    assert said("backfills", "get", "s", "none").code == 3
    assert said("schedules", "backfill", "t", *SPAN).code == 3
    refused = said("--json", "schedules", "backfill", "s", SPAN[1], SPAN[0])
    assert (refused.code, refused.problem["field"]) == (1, "END")


def test_nothing_to_run_is_no_question(said: Say) -> None:
    """Without ``--current`` the schedule's own time counts, and that begins now."""
    (planned,) = said("--json", "schedules", "backfill", "s", *SPAN).json
    assert (planned["total"], planned["state"]) == (0, "PLANNED")
    said_why = said("schedules", "backfill", "s", "-10m", "-5m").out
    assert "why nothing  The schedule did not exist before " in said_why
    assert "\n             Its present definition has 5 fires there: pass --current to run them." in said_why


def test_who_watches_leaves_it_going_by_ctrl_c(said: Say, local_settings: Settings) -> None:
    watching = typed(local_settings, "--json", *BACKFILL, "--yes", "--watch", stdout=subprocess.PIPE)

    def is_there() -> bool:
        return bool(said("--json", "backfills", "list", "s").json)

    def is_watching() -> bool:
        """It heeds SIGTERM, which it does only while it watches."""
        (caught,) = re.findall(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{watching.pid}/status").read_text(), re.MULTILINE)
        return bool(int(caught, 16) & 1 << signal.SIGTERM - 1)

    while not (is_there() and is_watching()):
        assert watching.poll() is None
    watching.send_signal(signal.SIGINT)
    out, _ = watching.communicate(timeout=60)
    assert watching.returncode == 0
    assert '"state": "RUNNING"' in out
    assert said("--json", "backfills", "list", "s").json[0]["state"] == "RUNNING"

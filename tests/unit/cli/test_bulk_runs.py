"""``quarterjack runs bulk …`` as one types it."""

from __future__ import annotations

import re

import pytest
from quarterjack import Scheduler, Settings
from quarterjack.domain.history.entry import Book
from quarterjack.domain.names import parse_run_id
from quarterjack.historian.pages import pages_of
from quarterjack.services import connect, system_clock
from quarterjack.state.history.entries import entry_of, open_place

from tests.support.command_line import Say

pytestmark = pytest.mark.cloud


@pytest.fixture(autouse=True)
def waiting(local_settings: Settings) -> list[str]:
    """Ids of five waiting runs, three of customer 0, that the history has."""
    owner, services = Scheduler(settings=local_settings), connect(local_settings)
    ids = [owner.submit("j", delay=3_600, tags={"customer": str(n % 2)}).id for n in range(5)]
    rows = services.ledger.look([parse_run_id(run_id) for run_id in ids]).found.values()
    entries = [entry_of(row, open_place(row), n) for n, row in enumerate(rows)]
    services.history.append(list(pages_of(Book.OPEN, entries, system_clock(), services.retention)))
    return ids


def states(said: Say, ids: list[str]) -> list[str]:
    return [said("--json", "runs", "show", run_id).json[0]["state"] for run_id in ids]


def test_it_says_how_many_asks_acts_and_goes_on_with_its_token(said: Say, waiting: list[str]) -> None:
    planned = said("runs", "bulk", "cancel", "--tag", "customer=0", "--dry-run")
    assert "3 runs would be acted on" in planned.out + planned.err
    assert "3 QUEUED" in planned.out + planned.err
    refused = said("runs", "bulk", "cancel", "--tag", "customer=0")
    assert (refused.code, states(said, waiting[:1])) == (8, ["QUEUED"])
    assert "Cancel 3 runs (3 QUEUED)" in refused.err
    done = said("runs", "bulk", "cancel", "--tag", "customer=0", "--yes")
    assert (done.code, states(said, waiting)) == (0, ["CANCELLED", "QUEUED"] * 2 + ["CANCELLED"])
    assert "3 runs are done, 0 failed" in done.out + done.err
    (token,) = re.findall(r"--client-token (\S+)", done.err)
    again = said("--json", "runs", "bulk", "cancel", "--tag", "customer=0", "--yes", "--client-token", token)
    assert (again.json[0]["count"], again.json[0]["failed_count"], again.json[0]["cursor"]) == (3, 0, None)


def test_what_does_not_match_is_told_and_what_is_wrong_is_refused(said: Say) -> None:
    assert "no run matches" in said("runs", "bulk", "cancel", "--tag", "customer=9", "--yes").err
    refused = said("--json", "runs", "bulk", "stop", "--job", "j", "--yes")
    assert (refused.code, refused.problem["field"]) == (1, "ACTION")
    assert said("--json", "runs", "bulk", "reassign", "--job", "j", "--yes").problem["field"] == "--version"

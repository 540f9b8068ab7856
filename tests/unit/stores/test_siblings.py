"""The siblings of a run: written under its lease, steps once, in the order of the attempts."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack.domain.run import RunRow
from quarterjack.domain.times import DAY, SECOND
from quarterjack.errors import InvalidInput
from quarterjack.ports.services import Services
from quarterjack.state.lease import succeed
from quarterjack.stores.siblings import BesideKind, CommitResult
from quarterjack.testing.memory.installation import RETENTION, Memory

from tests.support.builders import NOON, a_run, an_attempt
from tests.support.lease_steps import lease_of


@pytest.fixture
def run(services: Services) -> RunRow:
    """A leased run."""
    services.ledger.claim([a_run()])
    return lease_of(services, a_run())


def keep(services: Services, run: RunRow, kind: BesideKind, name: str, text: str, **changes: Any) -> bool:
    return services.siblings.keep(
        run.ref, **({"fence": run.fence, "expires": NOON} | changes), kind=kind, name=name, text=text
    )


def test_a_step_is_recorded_once_and_a_checkpoint_is_replaced(services: Services, run: RunRow) -> None:
    assert [keep(services, run, BesideKind.STEP, "s", text) for text in ("1", "2")] == [True, False]
    assert [keep(services, run, BesideKind.CHECKPOINT, "last", text) for text in ("1", "2")] == [True, True]
    assert keep(services, run, BesideKind.RESULT, "last", "3")
    beside = services.siblings.read(run.ref)
    assert (beside.steps, beside.checkpoint, beside.result) == ({"s": "1"}, "2", "3")


def test_a_worker_whose_lease_is_lost_writes_nothing(services: Services, run: RunRow) -> None:
    assert not keep(services, run, BesideKind.CHECKPOINT, "last", "1", fence=run.fence + 1)
    services.ledger.move(run.ref, succeed(fence=run.fence, now=NOON, expires=NOON + DAY))
    assert not keep(services, run, BesideKind.CHECKPOINT, "last", "1")
    assert services.siblings.read(run.ref).checkpoint is None


def test_a_sibling_outlives_the_retries_of_its_run(memory: Memory, run: RunRow) -> None:
    keep(memory.connect(), run, BesideKind.STEP, "s", "1", expires=NOON + RETENTION)
    row = memory.row(run.ref._replace(key=f"#{run.ref.key}#step#s"))
    assert row is not None
    assert row["ttl"] == (NOON + RETENTION + 14 * DAY) // SECOND


def test_attempts_are_read_in_their_order(services: Services, run: RunRow) -> None:
    attempts = [an_attempt(run, number=number) for number in (10, 2, 1)]
    for attempt in attempts:
        services.siblings.record(attempt)
    assert list(services.siblings.attempts(run.ref)) == attempts[::-1]
    assert list(services.siblings.attempts(a_run(NOON + 1).ref)) == []


def test_a_commit_says_why_it_wrote_nothing(services: Services, run: RunRow) -> None:
    def commit(step: str, fence: int = run.fence) -> CommitResult:
        return services.siblings.commit(run.ref, fence=fence, step=step, text="1", expires=NOON, items=())

    assert commit("s", run.fence + 1) == CommitResult()
    assert commit("s") == CommitResult(committed=True)
    assert commit("s") == CommitResult(recorded=True)


def test_a_refused_item_of_a_job_is_named_by_its_place(
    services: Services, run: RunRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(services.siblings._tables), "commit", lambda *_: frozenset({3}))
    result = services.siblings.commit(run.ref, fence=1, step="s", text="1", expires=NOON, items=())
    assert result == CommitResult(refused=1), "two items are Quarterjack's"


def test_items_without_tables_are_refused(services: Services, run: RunRow) -> None:
    item = {"Put": {"TableName": "orders", "Item": {}}}
    with pytest.raises(InvalidInput, match="does not have"):
        services.siblings.commit(run.ref, fence=run.fence, step="s", text="1", expires=NOON, items=[item])

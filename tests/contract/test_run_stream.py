"""Each kind of write of a run is in the stream once, in order, with both images, whatever request wrote it."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.names import RunRef
from quarterjack.domain.notice import notice_key
from quarterjack.domain.run import RunState
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.errors import Misconfigured
from quarterjack.local.installation import create_tables
from quarterjack.ports.run_stream import StreamPage
from quarterjack.ports.services import Services
from quarterjack.settings import Settings
from quarterjack.state.before_start import refuse, take_over
from quarterjack.state.lease import LEASE, SKEW, renew, retry, succeed
from quarterjack.stores.records import Record
from quarterjack.stores.schedules import IncidentChange
from quarterjack.stores.tables import RUNS, RowTables, RowWrite

from tests.support.builders import BOOM, NOON, a_head, a_notice, a_one_off, a_run
from tests.support.engines import Engine
from tests.support.lease_steps import HOUR, first_lease, lease_of

CANCELLED, QUEUED, RETRYING, RUNNING, SUCCEEDED = (
    RunState.CANCELLED,
    RunState.QUEUED,
    RunState.RETRYING,
    RunState.RUNNING,
    RunState.SUCCEEDED,
)
States = tuple[RunState | None, RunState | None]


def pages(services: Services) -> Iterator[StreamPage]:
    """All that the stream has, from its oldest change on."""
    for shard in services.stream.shards():
        position = None
        while True:
            page = services.stream.read(shard.id, position)
            yield page
            position = page.position or position
            if not page.has_more:
                break


def changes_of(services: Services, ref: RunRef | None = None) -> list[RunChange]:
    return [change for page in pages(services) for change in page.changes if ref in (None, change.ref)]


def states_of(services: Services, ref: RunRef) -> list[States]:
    """What the stream says of one run: each change's states before and after. Its changes are a chain, and in order."""
    found = changes_of(services, ref)
    assert [earlier.new for earlier in found[:-1]] == [later.old for later in found[1:]]
    sequences = [change.sequence for change in found]
    assert sequences == sorted(set(sequences))
    return list(map(states, found))


def states(change: RunChange) -> States:
    return change.old.state if change.old else None, change.new.state if change.new else None


def tables(services: Services) -> RowTables:
    return services.ledger._tables


def end(fence: int = 1) -> Any:
    return succeed(fence=fence, now=NOON + SECOND, expires=NOON + HOUR)


@pytest.fixture(params=["partiql", "put"])
def services(engine: Engine, request: pytest.FixtureRequest) -> Services:
    """With batches by PartiQL statements, and by a request for each item."""
    if engine.settings is None:
        return engine.services
    if engine.name == "moto" and request.param == "partiql":
        pytest.skip("moto executes no PartiQL INSERT with parameters")
    return engine.again(claim_by=request.param)


def test_a_claim_a_lease_and_an_end_in_batches_are_a_change_each(services: Services) -> None:
    runs = [a_run(NOON + number * SECOND) for number in range(30)]
    services.ledger.claim(runs)
    services.ledger.lease_all([(run.ref, first_lease(NOON + MINUTE)) for run in runs])
    services.ledger.move_all([(run.ref, end()) for run in runs])
    by_run = defaultdict[RunRef, list[States]](list)
    for change in changes_of(services):
        by_run[change.ref].append(states(change))
    assert by_run == {run.ref: [(None, QUEUED), (QUEUED, RUNNING), (RUNNING, SUCCEEDED)] for run in runs}


def test_images_are_the_rows_before_and_after(services: Services) -> None:
    run = a_run()
    services.ledger.claim([run])
    (claimed,) = changes_of(services, run.ref)
    assert (claimed.old, claimed.new, claimed.expired) == (None, run, False)
    leased = lease_of(services, run)
    (_, second) = changes_of(services, run.ref)
    assert (second.old, second.new) == (run, leased)


def test_single_transitions_are_a_change_each(services: Services) -> None:
    run = a_run()
    services.ledger.claim([run])
    lease_of(services, run)
    services.ledger.move(run.ref, renew(fence=1, now=NOON + SECOND))
    services.ledger.move(run.ref, retry(fence=1, not_before=NOON + MINUTE, failure=BOOM))
    lease_of(services, run, now=NOON + MINUTE)
    lease_of(services, run, now=NOON + MINUTE + LEASE + SKEW + SECOND)  # a worker that crashed loses it to another one
    services.ledger.move(run.ref, end(fence=3))
    assert states_of(services, run.ref) == [
        (None, QUEUED),
        (QUEUED, RUNNING),
        (RUNNING, RUNNING),
        (RUNNING, RETRYING),
        (RETRYING, RUNNING),
        (RUNNING, RUNNING),
        (RUNNING, SUCCEEDED),
    ]


def test_a_run_that_is_taken_over_leaves_its_end(services: Services) -> None:
    run = a_run()
    services.ledger.claim([run])
    refusal = refuse(to=CANCELLED, revision=1, now=NOON, expires=NOON + HOUR, reason="paused")
    services.ledger.move_all([(run.ref, refusal)])
    over = take_over(revision=2, job="report", not_before=NOON, now=NOON, seen=CANCELLED)
    services.ledger.move_all([(run.ref, over)])
    assert states_of(services, run.ref) == [(None, QUEUED), (QUEUED, CANCELLED), (CANCELLED, QUEUED)]
    assert changes_of(services, run.ref)[-1].new == services.ledger.read(run.ref)


def test_what_is_refused_or_changes_nothing_is_no_change(engine: Engine, services: Services) -> None:
    engine.is_wrong("unchanged row")
    run = a_run()
    services.ledger.claim([run])
    services.ledger.claim([run])
    services.ledger.submit(run)
    services.ledger.move(run.ref, end())
    services.ledger.move_all([(run.ref, end())])
    row = {"owner": run.ref.owner, "key": run.ref.key}
    tables(services).write("again", RowWrite(table=RUNS, row=row | {"job": run.job}))
    assert states_of(services, run.ref) == [(None, QUEUED)]


def test_submissions_alone_and_in_a_transaction_are_a_change_each(services: Services) -> None:
    small, large = a_one_off("small"), a_one_off("large", payload='"' + "x" * 1_000 + '"')
    services.ledger.submit(small)
    services.ledger.submit(large)
    assert {change.ref for change in changes_of(services)} == {small.ref, large.ref}
    assert states_of(services, small.ref) == states_of(services, large.ref) == [(None, QUEUED)]


def test_a_transaction_that_fails_is_no_change(services: Services) -> None:
    run, other = a_run(), a_run(NOON + SECOND)
    services.ledger.claim([run])
    keys = [{"owner": each.ref.owner, "key": each.ref.key} for each in (run, other)]
    puts = [RowWrite(table=RUNS, row=keys[1] | {"x": "y"}), RowWrite(table=RUNS, row=keys[0], kind="check")]
    refused = RowWrite(table=RUNS, row=keys[0], only_if=end().guard, kind="check")
    assert not tables(services).transact("both", [puts[0], refused], "both")
    assert [change.ref for change in changes_of(services)] == [run.ref]


def test_deletions_alone_and_in_a_batch_are_a_change_each_and_no_expiry(services: Services) -> None:
    first, second = a_run(), a_run(NOON + SECOND)
    services.ledger.claim([first, second])
    deletes = [
        RowWrite(table=RUNS, row={"owner": run.ref.owner, "key": run.ref.key}, kind="delete") for run in (first, second)
    ]
    tables(services).write("delete", deletes[0])
    tables(services).write("delete", deletes[0])
    tables(services).store("delete", deletes[1:])
    for run in (first, second):
        (_, deleted) = changes_of(services, run.ref)
        assert (deleted.old, deleted.new, deleted.expired) == (run, None, False)


def test_rows_that_are_no_runs_are_passed_over(services: Services) -> None:
    services.records.write(Record(owner="acme/report", key="~turns", version=1, body={"n": 1}))
    sibling: dict[str, Any] = {"owner": "acme/report", "key": "#001#attempt#000001", "number": 1}
    tables(services).store("put", [RowWrite(table=RUNS, row=sibling, kind="put")])
    found = list(pages(services))
    assert [change for page in found for change in page.changes] == []
    assert sum(page.unreadable for page in found) == 0
    assert any(page.position for page in found)  # so that they are not read again


def test_a_notice_in_the_transaction_of_its_incident_is_delivered_once(engine: Engine, services: Services) -> None:
    engine.is_wrong("row put by an update")
    notice = a_notice()
    key = notice_key(notice.token)
    record = Record(
        owner="acme/report", key=key, version=1, body={"to": None, "notice": notice.document()}, expires=NOON
    )
    head = a_head()
    assert services.schedules.note(IncidentChange(head=head, expected=0, records=[record]))
    services.records.remove(record)
    found = list(pages(services))
    assert [change.notice for page in found for change in page.notices] == [notice]
    assert [change for page in found for change in page.changes] == []
    assert sum(page.unreadable for page in found) == 0


def test_a_position_goes_on_behind_what_was_read_in_any_process(engine: Engine, services: Services) -> None:
    services.ledger.claim([a_run()])
    (shard, position) = next((s.id, p) for s in services.stream.shards() if (p := last(services, s.id)))
    services.ledger.claim([a_run(NOON + SECOND)])
    another = engine.again()
    for reader in (services, another, another):
        found = [change.ref.instant for change in read(reader, shard, position)]
        assert found == [NOON + SECOND]


def last(services: Services, shard: str) -> str | None:
    return services.stream.read(shard, None).position


def read(services: Services, shard: str, position: str) -> Sequence[RunChange]:
    """The first changes that come after a position; DynamoDB may answer with an empty page before them."""
    for _ in range(20):
        page = services.stream.read(shard, position)
        if page.changes:
            return page.changes
        threading.Event().wait(0.05)
    return ()


def test_the_instant_of_a_change_is_that_of_its_write(engine: Engine, services: Services) -> None:
    before = engine.clock()
    services.ledger.claim([a_run()])
    (change,) = changes_of(services)
    assert before - MINUTE < change.at <= engine.clock()  # rounded down: AWS to a second, DynamoDB Local to a minute


def test_a_stream_keeps_its_name_and_without_one_the_error_says_what_to_do(engine: Engine) -> None:
    assert engine.services.stream.name() == engine.again().stream.name()
    if engine.settings is not None:
        without = Settings(**(vars(engine.settings) | {"prefix": f"{engine.settings.prefix}-off", "history": False}))
        create_tables(engine.clients["dynamodb"], without)
        with pytest.raises(Misconfigured, match=r"has no stream.*QUARTERJACK_HISTORY=off"):
            engine.again(prefix=without.prefix).stream.name()

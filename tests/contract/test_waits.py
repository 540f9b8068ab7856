"""What wakes parked runs, over every engine: the first signal of a name stays, and the ends of children add up."""

from __future__ import annotations

from quarterjack.domain.names import RunRef, one_off_ref
from quarterjack.domain.times import DAY, SECOND
from quarterjack.ports.services import Services
from quarterjack.state.lease import lease, succeed
from quarterjack.stores.rows import run_key
from quarterjack.stores.siblings import BESIDE, RESULT_NAME, BesideKind, result_key
from quarterjack.stores.tables import RUNS
from quarterjack.stores.waits import SignalRow

from tests.support.builders import NOON, a_run

PARENT = a_run().ref
YES = SignalRow(payload='{"ok":true}', at=NOON, actor="app:ada")
FAR = NOON + 36_500 * DAY  # a local cloud deletes what has expired
LATE = SignalRow(payload=None, at=NOON + 1)


def test_the_first_signal_of_a_name_stays(services: Services) -> None:
    assert services.waits.signal(PARENT, "a") is None
    assert services.waits.put_signal(PARENT, "a", YES)
    assert not services.waits.put_signal(PARENT, "a", LATE)
    assert services.waits.signal(PARENT, "a") == YES
    assert services.waits.put_signal(PARENT, "b", LATE)
    assert services.waits.signal(PARENT, "b") == LATE


def test_the_ends_of_children_add_up(services: Services) -> None:
    assert services.waits.ended(PARENT, [1, 100, 101]) == set()
    for number in (1, 101, 101):
        services.waits.mark_ended(PARENT, number, NOON)
    assert services.waits.ended(PARENT, range(1, 1_000)) == {1, 101}
    assert services.waits.ended(PARENT, [2, 101]) == {101}
    other = RunRef(PARENT.owner, f"{PARENT.key}9")
    assert services.waits.ended(other, [1]) == set()


def test_what_is_recorded_is_kept_for_longer_where_it_would_expire_before(services: Services) -> None:
    """Children that have not ended, and rows that stay by themselves, are left as they are."""
    ended, going, gone = (one_off_ref("acme", name) for name in ("ended", "going", "gone"))
    for ref in (ended, going):
        services.ledger.submit(a_run(ref=ref, job="note"))
    leased = services.ledger.move(
        ended, lease(revision=a_run().revision, now=NOON, token="t", worker="w", max_attempts=3, steal=False)
    )
    assert leased.applied
    kept = services.siblings.keep(ended, fence=1, kind=BesideKind.RESULT, name=RESULT_NAME, text='"x"', expires=FAR)
    assert kept
    services.ledger.move(ended, succeed(fence=1, now=NOON, expires=FAR, result_ref=BESIDE))
    services.waits.mark_ended(PARENT, 1, FAR)

    def expiries() -> list[int | None]:
        keys = [run_key(ended), result_key(ended), run_key(going), run_key(gone)]
        rows = {RUNS.key_of(row)["key"] + row["owner"]: row for row in services.waits._tables.read("t", RUNS, keys)[0]}
        return [rows.get(key["key"] + key["owner"], {}).get("ttl") for key in keys]

    before = expiries()
    services.waits.prolong(PARENT, [ended, going, gone], until=FAR - 1)
    assert expiries() == before
    services.waits.prolong(PARENT, [ended, going, gone], until=FAR + 20 * DAY)
    until = (FAR + 20 * DAY + services.retention) // SECOND
    assert expiries() == [until, until, None, None]
    services.waits.prolong(None, [ended], until=FAR + 20 * DAY)
    assert expiries() == [until, until, None, None]


def test_what_lies_beside_a_run_is_none_of_its_siblings_to_a_job(services: Services) -> None:
    services.waits.put_signal(PARENT, "a", YES)
    services.waits.mark_ended(PARENT, 1, NOON)
    beside = services.siblings.read(PARENT)
    assert (beside.steps, beside.checkpoint, beside.attempts) == ({}, None, ())

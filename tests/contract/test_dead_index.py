"""The index of dead runs: a line a run, put once, read newest first over days, filtered where it lies."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.history.dead_run import DeadRunRow
from quarterjack.domain.names import fire_ref, one_off_ref
from quarterjack.domain.times import DAY, MINUTE, SECOND
from quarterjack.ports.services import Services
from quarterjack.state.ending import bury
from quarterjack.state.lease import die
from quarterjack.state.transition import Absent, Compare, Condition, all_of
from quarterjack.stores.tables import RUNS

from tests.support.builders import BOOM, NOON, a_one_off, a_run, an_audit_entry
from tests.support.engines import Engine
from tests.support.lease_steps import HOUR, lease_of

EXPIRES = NOON + 90 * DAY
MIDNIGHT = NOON // DAY * DAY


def a_death(at: int = NOON, *, tenant: str = "acme", name: str = "report", **changes: Any) -> DeadRunRow:
    """A run of a schedule, dead at a time."""
    given: dict[str, Any] = {
        "run": fire_ref(f"{tenant}/{name}", at - SECOND),
        "job": "report",
        "fence": 3,
        "attempts": 3,
        "reason": "failed 3 times",
        "error_type": "ValueError",
        "error": "boom",
    }
    return DeadRunRow(ended_at=at, **(given | changes))


def put(services: Services, *dead: DeadRunRow) -> None:
    for line in dead:
        assert services.dead_index.put(line, expires=EXPIRES)


def read(services: Services, tenant: str = "acme", **changes: Any) -> list[DeadRunRow]:
    given: dict[str, Any] = {"after": NOON - DAY, "upto": NOON + DAY, "only": None, "before": None, "page": None}
    return list(services.dead_index.read(tenant, **(given | changes)))


def test_a_line_comes_back_whole(services: Services) -> None:
    of_schedule = a_death()
    one_off = a_death(NOON + 1, run=one_off_ref("acme", "a:b/c@d"), error_type=None, error=None)
    put(services, of_schedule, one_off)
    assert read(services) == [one_off, of_schedule]
    assert [dead.schedule for dead in read(services)] == [None, "report"]


def test_a_line_is_put_once(services: Services) -> None:
    put(services, a_death())
    services.dead_index.mark(a_death(), redriven_as="acme/~again#once")
    assert not services.dead_index.put(a_death(reason="another"), expires=EXPIRES + DAY)
    (there,) = read(services)
    assert (there.reason, there.redriven_as) == ("failed 3 times", "acme/~again#once")


def test_several_may_die_in_one_millisecond(services: Services) -> None:
    at_once = [a_death(run=one_off_ref("acme", f"k{i}")) for i in range(5)]
    put(services, *at_once)
    assert read(services) == at_once[::-1]


def test_newest_first_over_days(services: Services) -> None:
    deaths = [a_death(MIDNIGHT + i * DAY + j) for i in range(-2, 3) for j in (-1, 0, 1)]
    put(services, *deaths)
    assert read(services, after=MIDNIGHT - 9 * DAY, upto=MIDNIGHT + 9 * DAY) == deaths[::-1]


@pytest.mark.parametrize(
    ("after", "upto", "found"),
    [
        (-2, 2, [2, 1, 0, -1]),
        (-1, 1, [1, 0]),
        (-1, 0, [0]),
        (0, 0, []),
        (1, 0, []),
        (2, 9, []),
        (-9 * DAY, -3, []),
    ],
)
def test_bounds_are_open_below_and_closed_above_at_midnight_too(
    services: Services, after: int, upto: int, found: list[int]
) -> None:
    put(services, *(a_death(MIDNIGHT + i) for i in range(-2, 3)))
    lines = read(services, after=MIDNIGHT + after, upto=MIDNIGHT + upto)
    assert [line.ended_at - MIDNIGHT for line in lines] == found


def test_a_tenant_sees_its_own(services: Services) -> None:
    put(services, a_death(), a_death(tenant="acme2"), a_death(tenant="acme.x"), a_death(tenant="acm"))
    assert [line.run.tenant for line in read(services)] == ["acme"]
    assert [line.run.tenant for line in read(services, "acm")] == ["acm"]
    assert read(services, "nobody") == []


JOB, SCHEDULE = Compare("job", "=", "pay"), Compare("schedule", "=", "nightly")


@pytest.mark.parametrize(
    ("only", "found"),
    [
        (None, [3, 2, 1, 0]),
        (JOB, [2, 1]),
        (SCHEDULE, [3, 1]),
        (Compare("error_type", "=", "KeyError"), [2]),
        (all_of(JOB, SCHEDULE), [1]),
        (Absent("redriven_as"), [3, 2, 0]),
        (all_of(JOB, Absent("redriven_as")), [2]),
    ],
)
def test_a_filter(services: Services, only: Condition | None, found: list[int]) -> None:
    put(
        services,
        a_death(NOON),
        a_death(NOON + 1, job="pay", name="nightly"),
        a_death(NOON + 2, job="pay", run=one_off_ref("acme", "k"), error_type="KeyError"),
        a_death(NOON + 3, name="nightly", error_type=None),
    )
    services.dead_index.mark(a_death(NOON + 1, name="nightly"), redriven_as="x")
    assert [line.ended_at - NOON for line in read(services, only=only)] == found


@pytest.mark.parametrize("page", [1, 3, 7, None])
@pytest.mark.parametrize("at_once", [1, 4])
def test_going_on_from_a_key_leaves_no_gap_and_repeats_nothing(
    services: Services, page: int | None, at_once: int
) -> None:
    deaths = [a_death(MIDNIGHT + i * MINUTE, job="pay" if i % 3 else "report") for i in range(-6, 6)]
    put(services, *deaths)
    seen: list[DeadRunRow] = []
    only, before = Compare("job", "=", "pay"), None
    while True:
        given: dict[str, Any] = {"after": MIDNIGHT - DAY, "upto": MIDNIGHT + DAY, "only": only, "page": page}
        some = list(islice(services.dead_index.read("acme", before=before, **given), at_once))
        if not some:
            break
        seen += some
        before = some[-1].key
    assert seen == [dead for dead in deaths[::-1] if dead.job == "pay"]


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("queries", [1, 3])
def test_queries_can_stop_anywhere_and_say_where_to_go_on(services: Services, rows: int, queries: int) -> None:
    """Also after a query that met nothing, and between two days."""
    deaths = [a_death(MIDNIGHT + i * MINUTE, job="pay" if i % 3 else "report") for i in range(-6, 6)]
    put(services, *deaths)
    seen: list[DeadRunRow] = []
    spent: list[float] = []
    only, before = Compare("job", "=", "pay"), None
    span: dict[str, Any] = {"after": MIDNIGHT - DAY, "upto": MIDNIGHT + DAY, "only": only, "on_read": spent.append}
    while True:
        some = list(islice(services.dead_index.pages("acme", before=before, rows=rows, **span), queries))
        if not some:
            break
        assert all(len(lines) <= rows for lines, _ in some)
        seen += [dead for lines, _ in some for dead in lines]
        before = some[-1][1]
    assert seen == [dead for dead in deaths[::-1] if dead.job == "pay"]
    assert sum(spent) > 0  # DynamoDB Local says 0 of a query that meets nothing
    assert all(units >= 0 for units in spent)


def test_a_redriven_run_is_marked(services: Services) -> None:
    put(services, a_death())
    assert services.dead_index.mark(a_death(), redriven_as="acme/~again#once")
    assert [line.redriven_as for line in read(services)] == ["acme/~again#once"]


def test_what_is_gone_cannot_be_marked(services: Services) -> None:
    assert not services.dead_index.mark(a_death(), redriven_as="acme/~again#once")
    assert read(services) == []


def test_lines_are_removed_all_or_none_with_the_line_of_the_act(services: Services) -> None:
    deaths = [a_death(NOON + i * 7 * MINUTE) for i in range(98)]
    put(services, *deaths)
    purge = an_audit_entry("acme", act=AuditAct.PURGE)
    assert not services.dead_index.remove([*deaths[10:], a_death(NOON + 1)], purge)  # the last was never there
    assert len(read(services)) == 98
    assert list(services.audit.entries("acme", purge.day)) == []
    assert services.dead_index.remove(deaths[10:], purge)
    assert read(services) == deaths[9::-1]
    assert services.dead_index.remove(deaths[:10], an_audit_entry("acme", act=AuditAct.PURGE))
    assert next(each.entry for each in services.audit.entries("acme", purge.day)) is not None


def test_the_ledger_takes_no_line_for_a_run(services: Services) -> None:
    run = a_run()
    services.ledger.claim([run])
    put(services, a_death())
    (line,) = read(services)
    listed = services.ledger.page(line.owner, after=None, upto=None, limit=9, cursor=None, newest_first=False)
    assert list(listed.items) == []
    assert [r.ref for r in services.upkeep.unfinished(dict.fromkeys(range(4), ""), segments=4)[0]] == [run.ref]


def test_burying_a_run_leaves_the_time_of_its_death(services: Services) -> None:
    run = a_run()
    services.ledger.claim([run])
    lease_of(services, run)
    services.ledger.move(run.ref, die(fence=1, now=NOON, expires=EXPIRES, reason="failed", failure=BOOM))
    for moment, applied in ((NOON + HOUR, True), (NOON + 2 * HOUR, False)):
        verdict = bury(fence=1, now=moment, expires=EXPIRES, reason="failed", failure=BOOM)
        moved = services.ledger.move(run.ref, verdict)
        assert moved.applied is applied
        assert moved.run is not None
        assert (moved.run.ended_at, moved.run.buried_at) == (NOON, NOON + HOUR)


def test_a_replay_comes_back_whole(services: Services) -> None:
    replay = a_one_off("again", replay_of="acme/report#1", scheduled_at=NOON - DAY, timezone="Europe/Paris")
    assert services.ledger.submit(replay) is None
    assert services.ledger.read(replay.ref) == replay
    assert lease_of(services, replay).scheduled_at == NOON - DAY  # as its worker sees it


def test_a_line_leaves_with_its_run(engine: Engine) -> None:
    put(engine.services, a_death())
    key = {"owner": a_death().owner, "key": a_death().key}
    if engine.settings is None:
        row = engine.memory._tables[RUNS].get(key["owner"], key["key"]) or {}
        assert row["ttl"] == EXPIRES // SECOND
        return
    found = engine.clients["dynamodb"].get_item(
        TableName=engine.settings.table("runs"), Key={name: {"S": text} for name, text in key.items()}
    )
    assert found["Item"]["ttl"] == {"N": str(EXPIRES // SECOND)}

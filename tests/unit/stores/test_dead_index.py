"""The index of dead runs: a line once, newest first, of one tenant."""

from __future__ import annotations

from typing import Any

from quarterjack.domain.history.dead_run import DeadRunRow
from quarterjack.domain.names import fire_ref
from quarterjack.domain.times import DAY, SECOND
from quarterjack.ports.services import Services
from quarterjack.state.transition import Compare

from tests.support.builders import NOON, an_audit_entry

EXPIRES = NOON + 90 * DAY


def a_death(at: int = NOON, *, tenant: str = "acme", **changes: Any) -> DeadRunRow:
    given: dict[str, Any] = {"job": "report", "fence": 3, "attempts": 3, "reason": "failed"}
    return DeadRunRow(run=fire_ref(f"{tenant}/report", at - SECOND), ended_at=at, **(given | changes))


def read(services: Services, **changes: Any) -> list[DeadRunRow]:
    given: dict[str, Any] = {"after": NOON - 5 * DAY, "upto": NOON + DAY, "only": None, "before": None, "page": None}
    return list(services.dead_index.read("acme", **(given | changes)))


def test_a_line_is_put_once(services: Services) -> None:
    assert services.dead_index.put(a_death(), expires=EXPIRES)
    assert not services.dead_index.put(a_death(reason="again"), expires=EXPIRES)
    assert read(services) == [a_death()]


def test_lines_are_read_newest_first_within_the_interval(services: Services) -> None:
    deaths = [a_death(NOON - day * DAY) for day in range(3)]
    for death in [*deaths, a_death(tenant="acme2")]:
        services.dead_index.put(death, expires=EXPIRES)
    assert read(services) == deaths
    assert read(services, after=deaths[2].ended_at, upto=deaths[1].ended_at) == [deaths[1]]
    assert read(services, before=deaths[0].key) == deaths[1:]
    assert read(services, only=Compare("job", "=", "other")) == []


def test_pages_go_on_beyond_their_last_row(services: Services) -> None:
    deaths = [a_death(NOON - second * SECOND) for second in range(3)]
    for death in deaths:
        services.dead_index.put(death, expires=EXPIRES)
    spent, seen, before = list[float](), list[DeadRunRow](), None
    for _ in range(9):
        how: dict[str, Any] = {"after": NOON - DAY, "upto": NOON, "only": None, "before": before, "rows": 1}
        page = next(services.dead_index.pages("acme", **how, on_read=spent.append), None)
        if page is None:
            break
        found, before = page
        seen += found
    assert seen == deaths
    assert len(spent) >= 3


def test_a_line_is_marked_while_it_is_there(services: Services) -> None:
    services.dead_index.put(a_death(), expires=EXPIRES)
    assert services.dead_index.mark(a_death(), redriven_as="acme/report#1")
    assert [line.redriven_as for line in read(services)] == ["acme/report#1"]
    assert not services.dead_index.mark(a_death(NOON - 1), redriven_as="x")
    assert len(read(services)) == 1


def test_lines_are_removed_together_or_not_at_all(services: Services) -> None:
    services.dead_index.put(a_death(), expires=EXPIRES)
    assert not services.dead_index.remove([a_death(), a_death(NOON - 1)], an_audit_entry())
    assert read(services) == [a_death()]
    assert services.dead_index.remove([a_death()], an_audit_entry())
    assert read(services) == []
    assert len(list(services.audit.entries("acme", NOON // DAY))) == 1

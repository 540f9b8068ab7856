"""Every transition on every situation, by the engine's own conditions and by ours: they agree, and so does what is written."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack.domain.names import RunRef
from quarterjack.dynamodb.items import to_item, to_row
from quarterjack.state.transition import Once, Plus, Transition, holds
from quarterjack.testing.memory.tables import changed_row

from tests.support.engines import Engine
from tests.support.rows import SITUATIONS, Row, made

ALL = {name: transition for name, (transition, _) in made().items()}
PLACES = {situation: RunRef("acme/guards", f"{number:03d}") for number, situation in enumerate(SITUATIONS)}
ALONE = {  # transitions that a batch cannot say: they depend on the row, or have alternatives
    "lease",
    "lease, no steal",
    "continue",
    "park",
    "release",
    "take back",
    "expire",
    "exhaust",
    "cancel waiting",
    "bury",
}


def lay(engine: Engine) -> dict[str, Row]:
    """A row in every situation."""
    rows = {s: row | {"owner": PLACES[s].owner, "key": PLACES[s].key} for s, row in SITUATIONS.items()}
    for situation, row in rows.items():
        if engine.settings is None:
            engine.memory.put_row(PLACES[situation], row)
    if engine.settings is not None:
        requests = [{"PutRequest": {"Item": to_item(row)}} for row in rows.values()]
        assert len(requests) <= 25
        engine.clients["dynamodb"].batch_write_item(RequestItems={engine.settings.table("runs"): requests})
    return rows


def present(engine: Engine) -> dict[str, dict[str, Any]]:
    if engine.settings is None:
        return {s: engine.memory.row(ref) or {} for s, ref in PLACES.items()}
    keys = [{"owner": {"S": ref.owner}, "key": {"S": ref.key}} for ref in PLACES.values()]
    table = engine.settings.table("runs")
    answer = engine.clients["dynamodb"].batch_get_item(RequestItems={table: {"Keys": keys}})
    found = {row["key"]: row for row in (to_row(item) for item in answer["Responses"][table])}
    return {s: found[ref.key] for s, ref in PLACES.items()}


def expected(row: Row, transition: Transition) -> Row:
    return changed_row(row, transition.changes) if holds(transition.guard, row) else row


@pytest.mark.parametrize("name", ALL)
def test_one_by_one(engine: Engine, name: str) -> None:
    transition = ALL[name]
    rows = lay(engine)
    for situation, ref in PLACES.items():
        moved = engine.services.ledger.move(ref, transition)
        after = expected(rows[situation], transition)
        assert moved.applied == (after is not rows[situation] or holds(transition.already, after)), situation
        assert moved.run is not None
        assert (moved.run.state, moved.run.fence) == (after["state"], after["fence"])
    assert present(engine) == {s: expected(row, transition) for s, row in rows.items()}


@pytest.mark.parametrize("name", sorted(set(ALL) - ALONE))
def test_in_a_batch(engine: Engine, name: str) -> None:
    transition = ALL[name]
    rows = lay(engine)
    applied = engine.services.ledger.move_all([(ref, transition) for ref in PLACES.values()])
    after = {s: expected(row, transition) for s, row in rows.items()}
    assert applied == {PLACES[s]: after[s] is not rows[s] or holds(transition.already, rows[s]) for s in PLACES}
    assert present(engine) == after


@pytest.mark.parametrize("name", sorted(ALONE))
def test_what_a_batch_cannot_say_is_refused_before_anything_is_written(engine: Engine, name: str) -> None:
    if engine.name == "moto":
        pytest.skip("without PartiQL a batch is one write after the other, and can say anything")
    with pytest.raises(TypeError, match=r"cannot be batched|no alternatives"):
        engine.services.ledger.move_all([(ref, ALL[name]) for ref in PLACES.values()])


def test_what_a_batch_cannot_say_is_known() -> None:
    dependent = {n for n, t in ALL.items() if any(isinstance(c, (Plus, Once)) for c in t.changes.values())}
    assert dependent <= ALONE

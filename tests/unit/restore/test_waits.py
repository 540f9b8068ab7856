"""Tables of an installation with runs below runs, each restored to another time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from quarterjack.domain.history.transition_line import TransitionLine
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import TERMINAL, UNTIL_DECIDED, RunState
from quarterjack.restore import reconcile
from quarterjack.restore.fates import NO_DEFINITION, UnknownEnd
from quarterjack.restore.steps import known_runs
from quarterjack.stores.tables import AGENDA, TABLES

from tests.support.scenes.restored_waits import TASKS, RestoredWaits


def lost(seed: int) -> tuple[RestoredWaits, int]:
    shop, chance = RestoredWaits(seed), random.Random(seed)
    shop.live()
    end = len(shop.journal.writes)
    middle = chance.randrange(end // 4, end)
    cuts = [min(end, max(1, middle + chance.randrange(-12, 13))) for _ in TABLES]
    point = shop.lose(shop.cuts(*cuts))
    shop.clock.advance(timedelta(seconds=chance.choice([1, 30, 600, 7_200])))
    return shop, point


_MORE = [pytest.param(seed, marks=pytest.mark.check) for seed in range(2, 14)]
_MANY = [pytest.param(seed, marks=pytest.mark.proof) for seed in range(100, 200)]


@pytest.mark.parametrize("seed", [*range(2), *_MORE, *_MANY])
def test_each_table_is_of_another_time(seed: int) -> None:
    shop, point = lost(seed)
    lines = shop.scheduler.archive(since=shop.clock.now() - timedelta(days=2))
    known = {line.run: RunState(line.after) for line in lines if line.after}
    before = Counter(shop.starts)
    planned = [(step.kind, step.target, step.why) for step in shop.plan(point)]
    done = list[tuple[object, str, str]]()
    restore = shop.restore(point, on_step=lambda step: done.append((step.kind, step.target, step.why)))
    assert done == planned
    assert shop.plan(point) == []
    undecided = {str(run.ref) for run in shop.held()}
    assert not [run for run in shop.held() if run.ref.is_fire and run.due > restore.until and not run.leases]

    shop.harness.advance(hours=3)
    rows = shop.rows()
    for run_id in shop.began(before):
        assert run_id not in undecided, rows[run_id]
        assert known.get(run_id) not in TERMINAL or rows[run_id].unstarted, rows[run_id]
        if before[run_id]:  # it went on from a retry or a wait that the archive knows of
            assert known[run_id] in (RunState.RETRYING, RunState.PARKED, RunState.CONTINUED), (
                known[run_id],
                rows[run_id],
            )
    for run_id, state in known.items():
        if state in TERMINAL and not rows[run_id].unstarted:
            assert rows[run_id].is_terminal, (state, rows[run_id])
    for run in shop.held():
        assert str(run.ref) in undecided
    shop.decide()
    shop.check_nothing_is_stuck()


def torn(monkeypatch: pytest.MonkeyPatch, shop: RestoredWaits, cut: int, *, unknown: Callable[[str], bool]) -> int:
    """All tables are put back to one write; of some runs the archive has lost the last seconds, so it knows nothing of them."""
    point = shop.lose(shop.cuts(*[cut] * len(TABLES)))

    def known(*given: Any) -> Mapping[RunRef, TransitionLine]:
        return {ref: line for ref, line in known_runs(*given).items() if not unknown(str(ref))}

    monkeypatch.setattr(reconcile, "known_runs", known)
    shop.clock.advance(timedelta(hours=1))
    shop.restore(point)
    return point


def parks(shop: RestoredWaits, run_id: str) -> int:
    """So many writes there were when a run had parked."""
    for number, (_, _, _, key, row) in enumerate(shop.journal.writes, 1):
        if row is not None and f"{row.get('owner')}#{key}" == run_id and row.get("state") == "PARKED":
            return number
    raise AssertionError(run_id)


def quiet() -> RestoredWaits:
    """Nobody works beside a job, and none fails."""
    shop = RestoredWaits()
    shop.noise = False
    shop.scheduler.create_schedule("line", "pipeline:line", "manual", tasks=TASKS)
    return shop


BEGIN: Mapping[str, Callable[[RestoredWaits], str]] = {
    "children": lambda shop: shop.scheduler.submit("gather", {}).id,
    "map": lambda shop: shop.scheduler.submit("spread", 9).id,
    "tasks": lambda shop: shop.scheduler.trigger("line").id,
    "batch": lambda shop: shop.batch(),
    "run": lambda shop: shop.follower(),
    "signal": lambda shop: shop.asked_and_answered(),
}


@pytest.mark.parametrize("kind", BEGIN)
def test_who_would_go_on_by_itself_is_held(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The archive knows that what it waits for has happened, and not that it went on."""
    shop = quiet()
    run_id = BEGIN[kind](shop)
    shop.harness.advance(minutes=10)
    assert shop.rows()[run_id].is_terminal
    cut = parks(shop, run_id) if kind != "signal" else shop.answered
    before = Counter(shop.starts)
    torn(monkeypatch, shop, cut, unknown=lambda ref: ref == run_id or ref.endswith(":e#once"))
    (held,) = shop.held()
    assert (str(held.ref), held.reason) == (run_id, UnknownEnd.WAIT_OVER)
    shop.harness.advance(hours=3)
    assert not shop.began(before)
    shop.scheduler.retry_run(run_id)
    shop.harness.advance(seconds=150 if kind == "map" else 30)  # with the first check of a map, and before any timer
    after = shop.rows()[run_id]
    assert after.is_terminal
    assert set(shop.began(before)) <= {run_id, *(ref for ref in shop.rows() if ref.endswith(":e#once"))}
    if kind == "batch":
        assert shop.ends[run_id]["succeeded"] == 4
    if kind in ("children", "tasks"):  # not silently None
        assert "lost when the tables were restored" in str(shop.story(run_id))
    shop.check_nothing_is_stuck()


def test_a_run_whose_wait_goes_on_is_kept_with_its_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = quiet()
    run_id = shop.scheduler.submit("ask", {}).id
    shop.harness.advance(minutes=10)
    torn(monkeypatch, shop, len(shop.journal.writes), unknown=lambda ref: False)
    assert not shop.held()
    shop.answer()
    shop.harness.advance(minutes=1)
    assert shop.rows()[run_id].state is RunState.SUCCEEDED


@pytest.mark.parametrize("decide", ["retry", "cancel"])
def test_a_held_task_is_decided_and_its_pipeline_goes_on(monkeypatch: pytest.MonkeyPatch, decide: str) -> None:
    shop = quiet()
    run = shop.scheduler.trigger("line")
    shop.harness.advance(minutes=10)
    task = next(ref for ref in shop.rows() if ref.endswith(":a#once"))
    cut = next(
        number
        for number, (_, _, _, key, row) in enumerate(shop.journal.writes, 1)
        if row is not None and f"{row.get('owner')}#{key}" == task and row.get("state") == "RUNNING"
    )
    before = Counter(shop.starts)
    torn(monkeypatch, shop, cut, unknown=lambda ref: True)
    assert [str(held.ref) for held in shop.held()] == [task]
    shop.harness.advance(hours=3)
    assert not shop.began(before)
    if decide == "retry":
        shop.scheduler.retry_run(task)
    else:
        shop.scheduler.cancel_run(task)
    shop.harness.advance(minutes=5)
    assert shop.rows()[run.id].state is (RunState.SUCCEEDED if decide == "retry" else RunState.DEAD)
    shop.check_nothing_is_stuck()


@pytest.mark.parametrize("agenda", ["kept", "older"])
@pytest.mark.parametrize("wait", ["permit", "turn"])
def test_a_queue_of_a_cap_and_a_turn_are_free_again(monkeypatch: pytest.MonkeyPatch, wait: str, agenda: str) -> None:
    """The agenda has the wait queue and its timer, or has lost them; the ledger has permits that are taken and runs that wait."""
    shop = RestoredWaits()
    shop.live(steps=5)
    cut = shop.waits_from(wait)
    before = Counter(shop.starts)
    point = shop.lose(dict.fromkeys(TABLES, cut) | ({AGENDA: 1} if agenda == "older" else {}))
    shop.clock.advance(timedelta(hours=1))
    monkeypatch.setattr(reconcile, "known_runs", lambda *given: {})
    shop.restore(point)
    held = {str(run.ref) for run in shop.held()}
    assert held
    shop.harness.advance(hours=1)
    assert not held & set(shop.began(before))
    assert not [entry for entry in shop.memory.entries() if entry.due == UNTIL_DECIDED]
    shop.decide()
    shop.check_nothing_is_stuck()


def test_a_revision_that_no_table_has_gets_no_other_definition() -> None:
    """The runs and the archive know revision 2, which the schedules do not: its number is not given anew."""
    shop = quiet()
    shop.scheduler.create_schedule("often", "note", "*/10 * * * *")
    shop.harness.advance(minutes=15)
    cut = len(shop.journal.writes)
    shop.scheduler.update_schedule("often", job="nap")
    shop.harness.advance(minutes=6)
    waits = [run for run in shop.memory.runs() if run.revision == 2 and not run.is_terminal]
    assert waits
    end = len(shop.journal.writes)
    point = shop.lose(shop.cuts(cut, cut, cut, end, end, end, end))
    shop.clock.advance(timedelta(minutes=5))
    shop.restore(point)
    (head,) = [head for head in shop.memory.heads() if head.name == "often"]
    assert (head.revision, head.job) == (3, "note")
    rows = shop.rows()
    for run in waits:
        assert (rows[str(run.ref)].state, rows[str(run.ref)].reason) == (RunState.LOST, NO_DEFINITION.why)
    shop.decide()
    shop.check_nothing_is_stuck()

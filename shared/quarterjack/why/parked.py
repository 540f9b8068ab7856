"""A parked run: what it waits for, since when and until when, and which of its children or tasks have not ended."""

from __future__ import annotations

from collections.abc import Iterator

from quarterjack.domain.run import TERMINAL, RunRow
from quarterjack.state.waits.park import SLEEP, awaited_children, awaited_map, signal_of
from quarterjack.why.answer import Sentence, Verdict, count, show
from quarterjack.why.facts import Facts, of_run
from quarterjack.why.no_run import Judgement
from quarterjack.why.tasks import left_of, of_tasks
from quarterjack.why.under_way import attempts, not_leased, start

_SHOWN = 5  # children that are named


def parked(facts: Facts, run: RunRow) -> Judgement:
    """PARKED. A run whose wait is over, and that no worker has leased, waits for a worker."""
    is_over = run.not_before <= facts.now
    said = [of_run(run, _ended_wait(run) if is_over else _wait(facts, run)), *([] if is_over else _awaited(facts))]
    rest = [*not_leased(facts, run), *start(facts, run), *attempts(facts, run)]
    return Verdict.WAITING if is_over else Verdict.PARKED, [*said, *rest]


def _ended_wait(run: RunRow) -> str:
    return f"It was parked at {show(run.parked_at or 0)}, and its wait was over at {show(run.not_before)}."


def _wait(facts: Facts, run: RunRow) -> str:
    since, name = show(run.parked_at or 0), signal_of(run)
    if run.awaits == SLEEP:
        text = f"It sleeps since {since}, until {show(run.wake_at or 0)}."
    elif name is not None:
        text = (
            f"It waits for signal {name!r} since {since}, until {show(run.wake_at or 0)}: answer it with "
            f"`quarterjack runs signal {run.ref} {name}`."
        )
    elif awaited_children(run):
        text = f"It waits for {_of_children(facts)} since {since}, until {show(run.wake_at or 0)} at the latest."
    elif facts.items is not None:
        ended, under_way, size = facts.items
        text = (
            f"It waits for map {awaited_map(run)!r} since {since}, until {show(run.wake_at or 0)} at the latest: {ended:,} of "
            f"{size:,} items have ended, {under_way:,} are under way."
        )
    elif facts.pipeline is not None:
        text = f"It waits for {left_of(facts.pipeline)} since {since}, until {show(run.wake_at or 0)} at the latest."
    else:
        text = f"It {run.reason or 'waits'}, since {since}."
    if run.wake_at is not None and run.not_before < run.wake_at:
        text += f" Its deadline is over at {show(run.not_before)}: it is EXPIRED then."
    return text


def _of_children(facts: Facts) -> str:
    """The number of children, and of those that have not ended."""
    if facts.children is None:
        return "children"
    left = sum(state not in TERMINAL for state in facts.children.values())
    return f"{left:,} of {count(len(facts.children), 'child').replace('childs', 'children')}"


def _awaited(facts: Facts) -> Iterator[Sentence]:
    yield from _children(facts)
    if facts.pipeline is not None:
        yield from of_tasks(facts.pipeline)


def _children(facts: Facts) -> Iterator[Sentence]:
    """The first children that have not ended. A run whose children have all ended is woken at the next check of its timer."""
    if not facts.children or facts.run is None:
        return
    waits = [(step, state) for step, state in facts.children.items() if state not in TERMINAL]
    for step, state in waits[:_SHOWN]:
        what = "has no row: it was not submitted, or has left the ledger" if state is None else f"is {state}"
        yield Sentence(text=f"Its child {step!r} {what}.", source=f"child {step!r} of run {facts.run.ref}")
    if len(waits) > _SHOWN:
        yield of_run(facts.run, f"{len(waits) - _SHOWN:,} more of its children have not ended.")
    if not waits:
        yield of_run(facts.run, "All of them have ended: it goes on within an hour, at the next check of its timer.")

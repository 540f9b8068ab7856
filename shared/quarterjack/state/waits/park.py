"""A run parks: it waits without worker, lease and message, until its time comes or somebody wakes it.

    RUNNING ── park ──► PARKED ── wake ──► CONTINUED ── lease ──► RUNNING     a signal came, or its children have ended
                          └────────────── lease, from ``wake_at`` on ──► RUNNING     it slept, or its wait timed out

A run can also be submitted PARKED, to start when another run has ended (``RUN``), or when the runs of a batch have (``BATCH``):

    submit ──► PARKED ── unpark ──► QUEUED ── lease ──► RUNNING

``wait_no`` is the number of the wait. Each park raises it, so a wake that was meant for an earlier wait is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.times import DAY, HOUR, MINUTE, SECOND
from quarterjack.state.transition import (
    NOT_CANCELLED,
    Absent,
    Change,
    Compare,
    Plus,
    Transition,
    all_of,
    held,
    in_state,
    in_state_under,
    same_revision,
)
from quarterjack.values import replace, value

MAX_WAIT = 366 * DAY  # the longest wait
WOKEN = "woken"  # the reason of a run that was woken
SLEEP = "sleep"  # what a run awaits that waits for a time alone
SIGNAL, CHILDREN = "signal:", "children:"  # before the signal's name, and before the numbers of the children
RUN, BATCH = (
    "run:",
    "batch:",
)  # before the id of the run that a submitted run follows, and before the number of a batch's items
TASKS = "tasks:"  # before the pipeline whose tasks a run waits for, and its revision: ``nightly@7``
MAP = "map:"  # before the step of a map whose items have to end
MAX_AT_A_TIME = 1_000  # items of a map: its window lies in one row, which each end of an item writes
# The marks of ends: one letter, so that the ends of a hundred items take less than 1 KB.
LETTERS: Mapping[RunState, str] = {
    RunState.SUCCEEDED: "S",
    RunState.DEAD: "D",
    RunState.LOST: "L",
    RunState.EXPIRED: "E",
    RunState.CANCELLED: "C",
    RunState.SUPERSEDED: "U",
    RunState.SKIPPED: "K",
    RunState.SHADOWED: "H",
}
_FIRST_CHECK, _LAST_CHECK = MINUTE, HOUR


@value(kw_only=True)
class WaitSpec:
    """What a run waits for when it parks."""

    awaits: str  # SLEEP, SIGNAL and a name, CHILDREN and their numbers, or MAP and its step
    reason: str  # the same in words
    wake_at: int  # UTC ms at which the wait ends whatever happens
    not_before: (
        int  # UTC ms from which the run may be leased: ``wake_at``, or the end of its deadline if that is earlier
    )
    asked: str | None = None  # JSON text: the latest requests of its job, in their order
    asked_before: int = 0  # the number of earlier ones, which lie beside the row


def deadline_over(due: int, deadline: float) -> int:
    """UTC ms from which a run is EXPIRED in place of leased. ``due``: UTC ms, ``deadline``: seconds after that."""
    return due + int(deadline * SECOND) + 1


def leased_from(wake_at: int, *, due: int, deadline: float | None) -> int:
    """UTC ms from which a parked run may be leased: the end of its wait, or that of its deadline, by which it is expired.

    ``due``: UTC ms, ``deadline``: seconds after that.
    """
    return wake_at if deadline is None else min(wake_at, deadline_over(due, deadline))


def submitted_parked(run: RunRow, *, awaits: str, reason: str, now: int, deadline: float | None = None) -> RunRow:
    """A run as it is put that waits for other runs before it starts."""
    wake_at = now + MAX_WAIT
    return replace(
        run,
        state=RunState.PARKED,
        awaits=awaits,
        reason=reason,
        wait_no=1,
        wake_at=wake_at,
        parked_at=now,
        not_before=leased_from(wake_at, due=run.due, deadline=deadline),
    )


def park(*, fence: int, number: int, now: int, wait: WaitSpec) -> Transition:
    """The job waits: the slice ends, and is no attempt. ``number``: of the wait, one more than that of the run's last one."""
    return Transition(
        name="park",
        to=RunState.PARKED,
        guard=all_of(held(fence), NOT_CANCELLED),
        changes={
            "state": RunState.PARKED,
            "not_before": wait.not_before,
            "lease_until": None,
            "lease_token": None,
            "reason": wait.reason,
            "attempt": Plus(-1),
            "slices": Plus(1),
            "wait_no": number,
            "awaits": wait.awaits,
            "wake_at": wait.wake_at,
            "parked_at": now,
            "asked": wait.asked,
            "asked_before": wait.asked_before or None,
        },
        already=in_state_under(RunState.PARKED, fence),
    )


def wake(*, number: int, now: int) -> Transition:
    """What a parked run waited for has happened: it continues. ``number``: of the wait that is over."""
    mine = Compare("wait_no", "=", number)
    return Transition(
        name="wake",
        to=RunState.CONTINUED,
        guard=all_of(in_state(RunState.PARKED), mine),
        changes={"state": RunState.CONTINUED, "not_before": now, "reason": WOKEN},
        already=all_of(in_state(RunState.CONTINUED), mine),
    )


def unpark(*, number: int, revision: int, now: int, payload: str | None = None) -> Transition:
    """The wait that a run was submitted for is over: it may start from ``now`` on. ``payload``: JSON text in place of its own."""
    mine = Compare("wait_no", "=", number)
    changes: dict[str, Change] = {"state": RunState.QUEUED, "not_before": now, "reason": WOKEN}
    return Transition(
        name="unpark",
        to=RunState.QUEUED,
        guard=all_of(in_state(RunState.PARKED), mine, same_revision(revision), Absent("started_at")),
        changes=changes if payload is None else changes | {"payload": payload},
        already=all_of(in_state(RunState.QUEUED), mine),
    )


def prolong(*, number: int, now: int, wake_at: int, not_before: int) -> Transition:
    """A heartbeat of what a parked run waits for: its wait ends at ``wake_at``. ``number``: of the wait, which is not over."""
    mine = all_of(in_state(RunState.PARKED), Compare("wait_no", "=", number))
    return Transition(
        name="prolong",
        to=None,
        guard=all_of(mine, Compare("wake_at", ">=", now + 1)),
        changes={"wake_at": wake_at, "not_before": not_before},
        already=all_of(mine, Compare("wake_at", "=", wake_at)),
    )


def signal_of(run: RunRow) -> str | None:
    """The name of the signal that a run waits for, or waited for last; None: it is something else."""
    return run.awaits.removeprefix(SIGNAL) if run.awaits and run.awaits.startswith(SIGNAL) else None


def awaited_map(run: RunRow) -> str | None:
    """The step of the map that a run waits for, or waited for last; None: it is something else."""
    return run.awaits.removeprefix(MAP) if run.awaits and run.awaits.startswith(MAP) else None


def batch_size(run: RunRow) -> int | None:
    """For the ends of how many items a run waits, or waited; None: for something else."""
    return int(run.awaits.removeprefix(BATCH)) if run.awaits and run.awaits.startswith(BATCH) else None


def awaited_children(run: RunRow) -> list[int]:
    """The numbers of the children that a run waits for, or waited for last."""
    return numbers(run.awaits.removeprefix(CHILDREN)) if run.awaits and run.awaits.startswith(CHILDREN) else []


def tasks_text(pipeline: str, revision: int) -> str:
    """What the run of a pipeline awaits."""
    return f"{TASKS}{pipeline}@{revision}"


def pipeline_of(run: RunRow) -> tuple[str, int] | None:
    """The pipeline of a run, and its revision; None: it is none, or has not begun to wait for its tasks."""
    if run.awaits is None or not run.awaits.startswith(TASKS):
        return None
    name, _, revision = run.awaits.removeprefix(TASKS).rpartition("@")
    return name, int(revision)


def kind_of_wait(awaits: str | None) -> str:
    """What a run waits for, as a word: "sleep", "signal", "children" and so on."""
    return (awaits or "").partition(":")[0]


def wait_id(run_id: str, number: int) -> str:
    """The id of the agenda entry that checks a wait of a run."""
    return f"{run_id}#wait{number}"


def next_check(*, parked_at: int, not_before: int, now: int, ahead: int) -> int:
    """When the timer of a parked run is due (UTC ms), so that the ticker, which handles timers ``ahead`` ms before, checks the run.

    Checks are 1, 2, 4 … minutes apart, at most an hour. The last timer is due when the run may be leased.
    Whoever makes happen what a run waits for wakes it. The check finds the run whose waker has crashed.
    """
    return min(now + ahead + min(max(now - parked_at, _FIRST_CHECK), _LAST_CHECK), not_before)


def numbers(children: str) -> list[int]:
    """The children's numbers in a text as ``ranges`` makes it."""
    found = list[int]()
    for part in children.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def ranges(children: Iterable[int]) -> str:
    """Ascending numbers as a short text: ``1-3,7``."""
    parts = list[list[int]]()
    for number in sorted(set(children)):
        if parts and parts[-1][1] + 1 == number:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)

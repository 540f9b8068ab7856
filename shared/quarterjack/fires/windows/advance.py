"""What moves a window on: the process that has ended a run of it, the worker of its parent, and the timer of its parent's wait.

mark of the end ──► window: ended items leave, next items enter ──► claims ──► messages ──► the parent is woken, if that was all

The window is written under its version: of several processes one succeeds with each version, so it never exceeds its bound. A process
that loses the race counts the ends of all others with its next write, or finds that another has counted its own.

a process dies                  why nothing is lost
after the mark                  its message comes back, and counts it
after the window was written    its message comes back, finds the mark, and claims and sends the items that its end let in
an end without a message        the timer of the parent's wait checks the whole window
the worker that begins a map    the first items have agenda entries, until they are sent: the parent may never park
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from quarterjack.domain.message import Message
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import RunRow, RunState, child_row
from quarterjack.errors import Unavailable
from quarterjack.fires.claim import one_off_message, send
from quarterjack.fires.windows.items import read_payloads
from quarterjack.ports.services import Clock, Services
from quarterjack.state.waits.park import LETTERS, MAX_WAIT
from quarterjack.state.waits.window import RECORD, ItemWindow, map_of
from quarterjack.stores.ledger import BatchReadResult
from quarterjack.stores.records import Record
from quarterjack.values import replace, value

log = logging.getLogger(__name__)

_ROUNDS = 10  # writes that others may win, before the end is told again later
_MOST_ENDED = 2_000  # items of one check that had ended before they entered
_PART = 100  # items that are claimed and sent at a time


def read_window(ref: RunRef, services: Services) -> ItemWindow | None:
    """The window of a map; None: it has not begun, or has left the ledger. Raises Unavailable."""
    record = services.records.read(ref.owner, RECORD)
    return None if record is None else ItemWindow.of_body(ref, record.body, record.version)


def open_window(window: ItemWindow, services: Services, clock: Clock) -> ItemWindow:
    """Put a new window, without an item in it, and move it on; the window, or the one that exists. Raises Unavailable."""
    if not write_window(window, services, clock):
        window = read_window(window.ref, services) or window
    return advance(window.ref, services, clock) or window


def item_ended(run: RunRow, services: Services, clock: Clock, *, again: bool) -> RunRef | None:
    """Tell the window that a run of it has ended: the parent, if all have, and it is to be woken. Raises Unavailable.

    ``again``: the end may have been told before, by a process that died or failed before the items that it let in were sent. The second
    of two messages of an item is not that: it would send the next item a second time, whose second message does the same, to the last.
    """
    ref, number = map_of(run), run.child_no
    if ref is None or number is None:
        return None
    letter = LETTERS.get(run.state, LETTERS[RunState.SUCCEEDED])
    marks = services.waits.mark_new(ref, number, clock(), letter)
    window = _counted(ref, number, marks or {number: letter}, services, clock)
    if again and window is not None and marks is None:
        found = _checked(window, window.let_in_by(number), services)
        _start(window, found.missing, found.waiting, services, clock)
    return window.parent if window is not None and window.is_over else None


def _counted(ref: RunRef, number: int, ends: Mapping[int, str], services: Services, clock: Clock) -> ItemWindow | None:
    """The window without an item that has ended, and with those that it lets in; None: there is none. ``ends``: also of others."""
    for _ in range(_ROUNDS):
        window = read_window(ref, services)
        if window is None or number not in window.open:  # another process has counted it, and starts what follows
            return window
        after = window.counted(ends)
        if _may_start(after, services):
            after = after.entered(number)
        if write_window(after, services, clock):
            had_ended = _start(after, range(window.cursor + 1, after.cursor + 1), (), services, clock)
            return advance(ref, services, clock) if had_ended else after
        ends = {**ends, **services.waits.ends(ref, window.open)}
    raise _moving(ref)


def advance(ref: RunRef, services: Services, clock: Clock) -> ItemWindow | None:
    """Check the whole window; it as it is then. None: there is none. Raises Unavailable.

    The rows of all its items are read: items without a run are claimed, and those that wait for a worker are sent again.
    """
    lost, left = 0, _MOST_ENDED
    while lost < _ROUNDS:
        window = read_window(ref, services)
        if window is None:
            return None
        found = _checked(window, window.open, services)
        after = window.counted(found.ends)
        if _may_start(after, services):
            after = after.entered()
        if after == window or write_window(after, services, clock):
            entered = range(window.cursor + 1, after.cursor + 1)
            had_ended = _start(after, [*found.missing, *entered], found.waiting, services, clock)
            left -= had_ended
            if not had_ended or left <= 0:
                return after
        else:
            lost += 1
    raise _moving(ref)


def _moving(ref: RunRef) -> Unavailable:
    return Unavailable(f"the window of map {ref} changed {_ROUNDS} times meanwhile; its ends are counted again later")


@value(kw_only=True)
class CheckedItems:
    """What a check of items in a window found."""

    ends: Mapping[int, str]  # letters of those that have ended, by number
    missing: Sequence[int]  # without a run
    waiting: Sequence[RunRow]  # for a worker


def _checked(window: ItemWindow, numbers: Sequence[int], services: Services) -> CheckedItems:
    """By their marks and their rows. Raises Unavailable."""
    ends = dict(services.waits.ends(window.ref, numbers)) if numbers else {}
    refs = {number: window.item(number) for number in numbers if number not in ends}
    looked = services.ledger.look([*refs.values()]) if refs else BatchReadResult()
    if looked.unanswered:
        raise Unavailable(f"the items of map {window.ref} could not be read; try again")
    rows = {number: looked.found.get(ref) for number, ref in refs.items()}
    ends |= {number: LETTERS[row.state] for number, row in rows.items() if row is not None and row.is_terminal}
    missing = [number for number, row in rows.items() if row is None]
    waiting = [row for row in rows.values() if row is not None and row.state is RunState.QUEUED]
    return CheckedItems(ends=ends, missing=missing, waiting=waiting)


def _may_start(window: ItemWindow, services: Services) -> bool:
    """Whether there is room, the parent has not ended, and nobody has asked for its cancellation."""
    if not window.room:
        return False
    looked = services.ledger.look([window.parent])  # without its payload
    if looked.unanswered:
        raise Unavailable(f"the parent of map {window.ref} could not be read; try again")
    parent = looked.found.get(window.parent)
    return parent is not None and not parent.is_terminal and not parent.cancel_requested


def write_window(window: ItemWindow, services: Services, clock: Clock) -> bool:
    """Whether it was written: not if another process has written it since it was read. Raises Unavailable."""
    expires = clock() + MAX_WAIT + services.retention
    record = Record(
        owner=window.ref.owner, key=RECORD, version=window.version + 1, body=window.as_body(), expires=expires
    )
    return services.records.write(record)


def _start(
    window: ItemWindow, numbers: Sequence[int], waiting: Sequence[RunRow], services: Services, clock: Clock
) -> int:
    """Claim items and send their messages, and those of runs that wait already. Raises Unavailable.

    The number of items that had ended before: a restore of the tables put their runs, and no other end counts them.
    """
    _send([one_off_message(run) for run in waiting], window, services, clock)
    had_ended = 0
    for start in range(0, len(numbers), _PART):
        part = numbers[start : start + _PART]
        payloads = read_payloads(window, part, services)
        runs = [item_run(window, number, payloads[number], clock()) for number in part]
        claimed = services.ledger.claim(runs)
        queued = [run for run in claimed.existing.values() if run.state is RunState.QUEUED]
        had_ended += sum(run.is_terminal for run in claimed.existing.values())
        sent = [*(run for run in runs if run.ref in claimed.created), *queued]
        _send([one_off_message(run) for run in sent], window, services, clock)
        if len(claimed.created) + len(claimed.existing) + len(claimed.unreadable) < len(runs):
            raise Unavailable(f"the ledger did not answer for items of map {window.ref}; they are claimed again later")
    return had_ended


def _send(messages: Sequence[Message], window: ItemWindow, services: Services, clock: Clock) -> None:
    if messages and not all(send(messages, services.work, clock)):
        raise Unavailable(f"the work queue did not take items of map {window.ref}; they are sent again later")


def item_run(window: ItemWindow, number: int, payload: Mapping[str, str | bool], now: int) -> RunRow:
    """The run that claims an item; ``payload`` has its fields that say the payload, ``now`` is UTC ms."""
    ref, parent = window.item(number), window.parent
    run = child_row(
        ref,
        parent,
        number,
        job=window.job,
        overrides=window.options,
        queue=window.queue,
        app_version=window.app_version,
        now=now,
    )
    return replace(run, **payload)  # type: ignore[arg-type]  # as ``read_payloads`` names its fields

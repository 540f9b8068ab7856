"""Wake parked runs: after a signal, after the end of a child, and by a check of what they wait for.

What a run waits for is recorded first, and then the run is woken. The run parks first, and then its worker checks the record. So one of
the two sees the other. The ticker checks once more, at intervals: it finds the run whose waker crashed between record and wake.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from quarterjack.domain.names import RunRef, parse_run_id
from quarterjack.domain.run import RunRow, RunState
from quarterjack.errors import NotFound, Unavailable
from quarterjack.fires.claim import message_of, send
from quarterjack.ports.services import Clock, Services
from quarterjack.state.waits.asked import child_ref, map_steps, steps_of
from quarterjack.state.waits.park import (
    LETTERS,
    RUN,
    SLEEP,
    TASKS,
    WOKEN,
    awaited_children,
    awaited_map,
    batch_size,
    signal_of,
    unpark,
    wake,
)
from quarterjack.state.waits.retention import recorded_until

log = logging.getLogger(__name__)


def wake_if_over(
    run: RunRow,
    services: Services,
    clock: Clock,
    *,
    rows: bool = False,
    chunk: Mapping[int, str] | None = None,
    ended: int | None = None,
) -> RunRow | None:
    """Wake a parked run if what it waits for has happened: the run, which continues; None: it has to wait, or has moved.

    ``rows``: the rows of children are read that no process has marked as ended. ``chunk``: marks of ends, as that of the child with
    the number ``ended`` was just written. The run of a pipeline starts tasks by that. Raises Unavailable.
    """
    if run.state is not RunState.PARKED:
        return None
    size, payload = batch_size(run), None
    if size is not None:
        payload = _counts(run, size, services, clock, rows=rows, chunk=chunk)
        if payload is None:
            return None
    elif run.awaits is not None and run.awaits.startswith(TASKS):
        if not _has_no_task_left(run, services, clock, rows=rows, chunk=chunk, ended=ended):
            return None
    elif not _has_happened(run, services, clock, rows=rows):
        return None
    now = clock()
    if run.started_at is None:
        move = unpark(number=run.wait_no, revision=run.revision, now=max(now, run.due), payload=payload)
    else:
        move = wake(number=run.wait_no, now=now)
    moved = services.ledger.move(run.ref, move)
    if not moved.applied or moved.run is None:
        return None
    log.info("run.woken", extra={"run_id": str(run.ref), "job": run.job, "tenant": run.ref.tenant, "wait": run.wait_no})
    return moved.run


def _counts(run: RunRow, size: int, services: Services, clock: Clock, **how: Any) -> str | None:
    """The payload of the run after a batch whose items have all ended; None: some have not."""
    from quarterjack.fires.batches import ends_of_batch  # noqa: PLC0415 (who has no batch loads neither)
    from quarterjack.state.waits.batch import counts_of  # noqa: PLC0415 (as above)

    ends = ends_of_batch(run, size, services, clock, **how)
    return None if ends is None else counts_of(run.ref.owner.partition("/~")[2], size, ends)


def _has_no_task_left(run: RunRow, services: Services, clock: Clock, **how: Any) -> bool:
    """Advance the run of a pipeline; whether all its tasks have ended, or nothing says any more which it has."""
    from quarterjack.fires.pipelines.advance import advance  # noqa: PLC0415 (who has no pipeline loads neither)
    from quarterjack.fires.pipelines.rows import read_pipeline  # noqa: PLC0415 (as above)

    try:
        pipeline = read_pipeline(run, services)
    except NotFound:  # its schedule was deleted, and its revisions with it: the run ends when it is woken
        return True
    return pipeline is not None and advance(pipeline, services, clock, **how)


def _send_left(run: RunRow, services: Services, clock: Clock, marks: Mapping[int, str], ended: int) -> None:
    from quarterjack.fires.pipelines.advance import send_left  # noqa: PLC0415 (as above)
    from quarterjack.fires.pipelines.rows import read_pipeline  # noqa: PLC0415 (as above)

    pipeline = read_pipeline(run, services)
    if pipeline is not None:
        send_left(pipeline, marks, ended, services, clock)


def _has_happened(run: RunRow, services: Services, clock: Clock, *, rows: bool) -> bool:
    """Whether the signal is there, or all children have ended. A time alone needs no wake: the run is leased when it comes."""
    name = signal_of(run)
    if name is not None:
        return services.waits.signal(run.ref, name) is not None
    if run.awaits is not None and run.awaits.startswith(RUN):
        before = services.ledger.read(parse_run_id(run.awaits.removeprefix(RUN)))
        return before is None or before.is_terminal
    step = awaited_map(run)
    if step is not None:
        return _is_over(map_of_step(run.ref, step), services, clock, rows=rows)
    awaited = set(awaited_children(run))
    if not awaited:
        return False
    left = awaited - services.waits.ended(run.ref, awaited)
    if not left or not rows:
        return not left
    steps = child_steps(run, services)
    looked = services.ledger.look([child_ref(run.ref, steps[number]) for number in left if number in steps])
    if looked.unanswered:
        raise Unavailable(f"the children of run {run.ref} could not be read; try again")
    return all(child.is_terminal for child in looked.found.values())


def children(run: RunRow, services: Services) -> Mapping[int, RunRef]:
    """The children that a run has asked for before it last parked, by their numbers. Raises Unavailable.

    Of a pipeline's run all that its tasks may have: those of an earlier run that it repeats among them.
    """
    if run.awaits is not None and run.awaits.startswith(TASKS):
        from quarterjack.fires.pipelines.rows import read_pipeline  # noqa: PLC0415 (as above)

        pipeline = read_pipeline(run, services)
        return {} if pipeline is None else pipeline.refs(services)
    return {number: child_ref(run.ref, step) for number, step in child_steps(run, services).items()}


def _is_over(ref: RunRef, services: Services, clock: Clock, *, rows: bool) -> bool:
    """Whether all items of a map have ended; ``rows``: after a check of all items in its window."""
    from quarterjack.fires.windows.advance import advance, read_window  # noqa: PLC0415 (who has no map loads none)

    window = advance(ref, services, clock) if rows else read_window(ref, services)
    return window is not None and window.is_over


def map_of_step(parent: RunRef, step: str) -> RunRef:
    """The place of a map of that run."""
    from quarterjack.state.waits.window import map_ref  # noqa: PLC0415 (as above)

    return map_ref(parent, step)


def keep_recorded(run: RunRow, services: Services, clock: Clock, *, until: int, since: int) -> bool:
    """Keep what a parked run has recorded until an instant (UTC ms); whether all of it is kept: the items of maps go some at a time.

    ``since``: when it was kept before (UTC ms). Raises Unavailable.
    """
    services.waits.prolong(run.ref, [*children(run, services).values()], until=until)
    maps = [map_of_step(run.ref, step) for step in map_steps(requests_of(run, services))]
    if not maps:
        return True
    from quarterjack.fires.windows.keep import AT_A_CHECK, keep_items  # noqa: PLC0415 (who has no map loads none)

    return all(keep_items(ref, services, clock, until=until, since=since, most=AT_A_CHECK) for ref in maps)


def child_steps(run: RunRow, services: Services) -> Mapping[int, str]:
    """The steps of the children that a run has asked for before it last parked, by their numbers. Raises Unavailable."""
    return steps_of(requests_of(run, services))


def requests_of(run: RunRow, services: Services) -> Sequence[str]:
    """What the job of a run has asked for before it last parked, in its order. Raises Unavailable."""
    if run.asked is None and not run.asked_before:
        return ()
    earlier = services.siblings.read(run.ref).asked[: run.asked_before] if run.asked_before else ()
    return (*earlier, *json.loads(run.asked or "[]"))


def notify_waiting(
    ref: RunRef,
    services: Services,
    clock: Clock,
    *,
    chunk: Mapping[int, str] | None = None,
    ended: int | None = None,
) -> RunRow | None:
    """Wake the run for which something was recorded, if it waits for that, and send its message; the run as it is. Raises Unavailable.

    A run that was woken and has no lease yet gets its message again: its waker may have crashed before it sent one.
    """
    run = services.ledger.read(ref)
    if run is None:
        return None
    if run.is_terminal and ended is not None and run.awaits is not None and run.awaits.startswith(TASKS):
        _send_left(run, services, clock, chunk or {}, ended)
    woken = wake_if_over(run, services, clock, chunk=chunk, ended=ended)
    if woken is None and not (run.state in (RunState.CONTINUED, RunState.QUEUED) and run.reason == WOKEN):
        return run
    message = message_of(woken or run, services)
    if message is not None and not send([message], services.work, clock)[0]:
        raise Unavailable(
            f"run {ref} continues, but the work queue did not take its message; it is sent at the next check"
        )
    return woken or run


def tell_end(run: RunRow, services: Services, clock: Clock, *, again: bool = True) -> None:
    """Tell those that wait for the end of a run: its parent, and the run that follows it under its unique key.

    Whoever ends a run calls it before it lets go of what would bring the end back: message, letter, agenda entry. ``again``: what it has
    may have been somebody else's, who told the end in part. Raises Unavailable.
    """
    if run.parent is not None and run.child_no is not None:
        parent = parse_run_id(run.parent)
        end = run if run.is_terminal else services.ledger.read(run.ref) or run
        if _is_numbered(run) and _told_its_window(end, services, clock, again=again):
            return
        chunk = services.waits.mark_ended(parent, run.child_no, clock(), _mark(end))
        waiting = notify_waiting(parent, services, clock, chunk=chunk, ended=run.child_no)
        if waiting is not None and waiting.state is RunState.PARKED and waiting.awaits == SLEEP:
            _keep_child(run, waiting, services, clock())
    if run.unique is not None:
        key = services.unique_keys.read(run.ref.tenant, run.job, run.unique)
        if key is not None and key.run == run.ref and key.follower is not None:
            notify_waiting(key.follower, services, clock)


def _is_numbered(run: RunRow) -> bool:
    """Whether a run may be an item of a map: its id ends with its number."""
    return "/~map-" in run.ref.owner and run.ref.owner.endswith(f":{run.child_no:05d}")


def _told_its_window(run: RunRow, services: Services, clock: Clock, *, again: bool) -> bool:
    """Whether a run that has ended is an item of a map, whose window was told, and its parent if that was all. Raises Unavailable."""
    from quarterjack.fires.windows.advance import item_ended  # noqa: PLC0415 (who has no batch and no map loads none)
    from quarterjack.state.waits.window import map_of  # noqa: PLC0415 (as above)

    if map_of(run) is None:
        return False
    waiting = item_ended(run, services, clock, again=again)
    if waiting is not None:
        notify_waiting(waiting, services, clock)
    return True


def _mark(end: RunRow) -> str:
    """The mark of a child that has ended."""
    if end.state is not RunState.SKIPPED:
        return LETTERS.get(end.state, "S")
    from quarterjack.state.pipelines.decide import mark_of  # noqa: PLC0415 (as above: a task that never started)

    return mark_of(end)


def _keep_child(run: RunRow, parent: RunRow, services: Services, now: int) -> None:
    """Keep a child that has ended while its parent sleeps, if that needs it later. Raises Unavailable."""
    until = recorded_until(
        started_at=now, awaits=SLEEP, not_before=parent.not_before, now=now, retention=services.retention
    )
    if until is not None:
        services.waits.prolong(None, [run.ref], until=until)

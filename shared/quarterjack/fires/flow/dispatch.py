"""Send the messages of new one-offs; those with a flow get their permits first, or enter the wait queue of their key without a message.

    permits of the key ─► message                         the run has a permit when its message arrives
    wait queue's entry ─► timer ─► permits again          who gives a permit back sends for it: as for runs that a worker has received

So runs with one key start in the order of their submissions, and each is sent and received once. Whatever fails here leaves a run to its
worker, which asks for the permit itself.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence

from quarterjack.domain.message import Message
from quarterjack.domain.policies.flow import OnFull
from quarterjack.domain.run import RunRow
from quarterjack.domain.schedule import freeze_key
from quarterjack.errors import QuarterjackError
from quarterjack.fires.claim import send
from quarterjack.fires.context import next_look
from quarterjack.fires.flow.run_flow import flow_of_run
from quarterjack.fires.flow.wait_queue import change_cap, enqueue, put_queue_timer
from quarterjack.ports.services import Clock, Services
from quarterjack.state.tenants.caps import ConcurrencyCap
from quarterjack.state.tenants.permits import CapPermits

log = logging.getLogger(__name__)


def dispatch(runs: Sequence[tuple[RunRow, Message]], services: Services, clock: Clock) -> list[bool]:
    """Send the messages of runs, or let the runs wait for permits; for each, whether it needs its entry in the agenda no more.

    Raises Unavailable, and Misconfigured if the default queue does not exist or refuses the caller.
    """
    by_cap: dict[ConcurrencyCap, list[tuple[str, Message]]] = defaultdict(list)
    for run, message in () if _is_frozen(runs[0][0].ref.tenant, services, clock()) else runs:
        cap = _cap_of(run, services, clock())
        if cap is not None:
            by_cap[cap].append((str(run.ref), message))
    waiting = set[str]()
    for cap, own in by_cap.items():
        waiting |= _waiting(cap, own, services, clock)
    going = [message for run, message in runs if str(run.ref) not in waiting]
    accepted = dict(zip((str(message.run) for message in going), send(going, services.work, clock), strict=True))
    return [accepted.get(str(run.ref), True) for run, _ in runs]


def _is_frozen(tenant: str, services: Services, now: int) -> bool:
    """Whether a part of the tenant's runs may be frozen: workers see to that first, and a permit of a flow would be kept for nothing."""
    key = freeze_key(tenant)
    answer = services.schedules.revisions([key])
    frozen = answer.frozen.get(tenant)
    return key in answer.unanswered or key in answer.broken or (frozen is not None and bool(frozen.parts_at(now)))


def _cap_of(run: RunRow, services: Services, now: int) -> ConcurrencyCap | None:
    """Where a run that is due has to wait for its permit; None: its worker asks for it, if it needs one."""
    if not run.ref.is_one_off or run.overrides is None or "flow" not in run.overrides or run.not_before > now:
        return None
    cap = flow_of_run(run, services)
    return cap if cap is not None and cap.flow is not None and cap.flow.on_full is OnFull.WAIT else None


def _waiting(cap: ConcurrencyCap, own: Sequence[tuple[str, Message]], services: Services, clock: Clock) -> set[str]:
    """The runs that wait in the wait queue of a key; for the others there are permits, or their worker asks for them."""
    runs, got = [run for run, _ in own], set[str]()

    def edit(permits: CapPermits) -> CapPermits:
        nonlocal got
        after, got = permits.reserved(cap, runs, clock())
        return after

    try:
        change_cap(cap, edit, services, clock, name=runs[0])
        late = [(message, f"{clock()}") for run, message in own if run not in got]
        if late:
            put_queue_timer(cap, services, next_look(clock()), clock())  # first, so that no entry is without a timer
            enqueue(cap, late, services, clock)
    except QuarterjackError as problem:
        log.warning("flow.left_to_worker", extra={"cap": cap.id, "runs": len(runs), "error": str(problem)})
        return set()
    if late:
        _look_again(cap, services, clock)
    return {str(message.run) for message, _ in late}


def _look_again(cap: ConcurrencyCap, services: Services, clock: Clock) -> None:
    """A permit may have come free meanwhile, whose worker found no queued run."""
    try:
        change_cap(cap, CapPermits.enqueued, services, clock, name=cap.id)
    except QuarterjackError as problem:
        log.warning("wait_queue.not_looked_at", extra={"cap": cap.id, "error": str(problem)})

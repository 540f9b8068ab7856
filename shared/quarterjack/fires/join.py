"""Into the line of a concurrency cap without a message: by whoever would send it, and knows that the run would find no slot.

    owner's submit, trigger …    reads the slots of the tenant's caps; a tenant without caps costs no request
    ticker                       knows the lines by their marks, one query a tick (``fires/marks.py``)

    (no line yet: timer, mark ─►) entry ─► read the slots ─► write that there is a line ─► send as far as slots are free

Whoever finds in the record that there is a line leaves no timer. A ticker removes one only after it has written that there is no line,
and has found no entry then; and nobody writes that there is one without another timer. Runs of exclusive schedules are sent: what
becomes of them depends on when they come. So are those that are due later, by their owners: the ticker puts these in line too, and
whoever finds nobody before them sends them.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence

from quarterjack.domain.message import Message
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import RunRow
from quarterjack.errors import QuarterjackError
from quarterjack.fires.context import find_revision, next_look
from quarterjack.fires.lines import SOON, change_cap, line_up, look_after_line, read_shared
from quarterjack.fires.marks import TickMarks
from quarterjack.ports.services import Clock, Services
from quarterjack.state.tenants.marks import Mark
from quarterjack.state.tenants.slots import ALL, EVERYBODY, CapSlots, ConcurrencyCap, cap_named, caps_of, governed_by

log = logging.getLogger(__name__)


def join(cap: ConcurrencyCap, messages: Sequence[Message], services: Services, clock: Clock, *, begins: bool) -> None:
    """Put runs in the line of a cap instead of sending their messages. ``begins``: as far as is known there is no line yet.

    Raises Unavailable: they may not be there.
    """
    left = set[int]()  # the timer

    def look_after() -> None:
        due = next_look(clock())
        if due not in left:
            look_after_line(cap, services, due, clock())
            left.add(due)

    def lined_up(slots: CapSlots) -> CapSlots:
        if not slots.has_line:
            look_after()
        return slots.lined_up()

    if begins:  # so that no entry is left behind by who dies now, although the run is sent
        look_after()
    line_up(cap, [(message, str(clock())) for message in messages], services, clock)
    change_cap(cap, lined_up, services, clock)


def join_full(run: RunRow, message: Message, services: Services, clock: Clock) -> bool:
    """Put a run in the line of the first of its caps that has no slot for it. False: its message is to be sent."""
    now = clock()
    if run.not_before > now + SOON:
        return False
    try:
        cap, begins = _full(run, services, now)
        if cap is None or not _may_join(run, services):
            return False
        join(cap, [message], services, clock, begins=begins)
    except QuarterjackError as problem:
        log.warning("line.not_joined", extra={"run_id": str(run.ref), "error": str(problem)})
        return False
    return True


def _may_join(run: RunRow, services: Services) -> bool:
    if run.ref.is_one_off:
        return True
    revision = find_revision(run.ref.owner, run.defined_by or run.revision, services)
    return revision is not None and revision.definition.options.may_join_line


def _full(run: RunRow, services: Services, now: int) -> tuple[ConcurrencyCap | None, bool]:
    """The first cap of a run that has no slot for it, and whether nobody waits for one yet."""
    caps = caps_of(services.tenants.governance(run.ref.tenant, now), run.job)
    for record in dict.fromkeys(cap.record for cap in caps):
        own = [cap for cap in caps if cap.record == record]
        shared = read_shared(own[0], services)[0].current(now)
        for cap in own:
            slots = shared.of(cap.job)
            if slots.has_line or (cap.most is not None and slots.used() >= cap.most):
                return cap, not slots.has_line
    return None, False


class LineCheck:
    """The lines that a tick knows of. Thread-safe."""

    def __init__(self, services: Services, clock: Clock, marks: TickMarks) -> None:
        self._services, self._clock, self._marks = services, clock, marks

    def divert(self, wanted: Iterable[tuple[Message, str]]) -> frozenset[RunRef]:
        """Put runs, by their messages and jobs, in the lines that are marked; those that are there. The others are sent."""
        by_cap: dict[str, list[Message]] = defaultdict(list)
        marks = self._lines()
        for message, job in wanted if marks else ():
            names = (cap.id for cap in _possible(message.run.tenant, job))
            if (name := next((name for name in names if name in marks), None)) is not None:
                by_cap[name].append(message)
        diverted = set[RunRef]()
        for name, messages in by_cap.items():
            try:
                cap = cap_named(name, self._services.tenants.governance(governed_by(name), self._clock()))
                if cap.most is not None:
                    join(cap, messages, self._services, self._clock, begins=True)
                    diverted |= {message.run for message in messages}
            except Exception as problem:  # noqa: BLE001 (any failure: they are sent)
                error = f"{type(problem).__name__}: {problem}"
                log.warning("line.not_joined", extra={"cap": name, "runs": len(messages), "error": error})
        return frozenset(diverted)

    def _lines(self) -> frozenset[str]:
        try:
            return frozenset(self._marks.of(Mark.LINE))
        except QuarterjackError as problem:
            log.warning("lines.not_looked_at", extra={"error": str(problem)})
            return frozenset()


def _possible(tenant: str, job: str) -> list[ConcurrencyCap]:
    """The caps that a run may have, in the order in which they are asked."""
    owners = ((tenant, job), (tenant, ALL), (EVERYBODY, job))
    return [ConcurrencyCap(tenant=whose, job=of, most=None) for whose, of in owners]

"""Handle the agenda entries of chains: their fires are materialised and they leave their next entry.

The order of the writes is the protocol: claims, messages, the row of what was passed over, the next entry, and only then the
handled one goes. An entry of which anything was not answered stays as it is; handling it again is harmless.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from minutehand.domain.agenda_entry import AgendaEntry
from minutehand.domain.names import fire_ref
from minutehand.domain.quick import quick
from minutehand.domain.schedule import Revision
from minutehand.domain.times import STAMP_DIGITS, from_ms
from minutehand.errors import Unavailable
from minutehand.fires.backpressure import HoldExcuses
from minutehand.fires.claim import FireClaim, MaterialiseResult, materialise
from minutehand.fires.missed import MissedResult, record_missed
from minutehand.fires.plan import REACH, ChainPlan, end_of, plan_chain
from minutehand.fires.tick_counts import MissedFires, TickCounts
from minutehand.fires.withdraw import withdraw_beyond
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.state.missed import LATE

log = logging.getLogger(__name__)

_FIRES_AT_ONCE = 2_000  # claimed and sent in one go: bounds memory, fills batches
_PASSED_A_FIRE = 50  # fires that are passed over take the memory of one that is claimed


def advance_chains(
    entries: Sequence[AgendaEntry], services: Services, clock: Clock, *, reach: int = REACH, trace: str | None = None
) -> TickCounts:
    """Handle chain entries; each stays unless all of it was done. Raises Unavailable if nothing could be read."""
    result = TickCounts(entries=len(entries))
    excuses = HoldExcuses(services, clock)
    group: list[_Link] = []
    fires = 0
    for link in _plan(entries, services, clock, reach, excuses, result):
        group.append(link)
        fires += len(link.step.fires) + len(link.step.passed) // _PASSED_A_FIRE
        if fires >= _FIRES_AT_ONCE:
            _follow(group, services, clock, trace, result)
            group, fires = [], 0
    if group:
        _follow(group, services, clock, trace, result)
    return result


@quick
@dataclass(frozen=True)
class _Link:
    """An entry with what is to be done for it."""

    entry: AgendaEntry
    revision: Revision
    step: ChainPlan

    @cached_property
    def orders(self) -> list[FireClaim]:
        return [FireClaim(self.revision, fire) for fire in self.step.fires]


def _plan(
    entries: Sequence[AgendaEntry],
    services: Services,
    clock: Clock,
    reach: int,
    excuses: HoldExcuses,
    result: TickCounts,
) -> Iterable[_Link]:
    """Read the revisions and plan each entry's step; one that cannot be planned stops no other."""
    keys = _keys(entries, result)
    answer = services.schedules.revisions({key for _, key in keys})
    gone = []
    for entry, key in keys:
        if key in answer.unanswered:
            result.left += 1
        elif key in answer.broken:
            result.failed_at(entry, answer.broken[key])
        elif key not in answer.found:
            log.warning("entry.orphan", extra={"entry": entry.key})
            gone.append(entry)
        else:
            revision = answer.found[key]
            try:
                step = _step(revision, entry, services, clock, reach, excuses)
            except Exception as problem:  # noqa: BLE001 (garbage, or a later release's: this entry's own failure)
                result.failed_at(entry, problem)
            else:
                yield _Link(entry, revision, step)
    result.remove(gone, services)


def _step(
    revision: Revision, entry: AgendaEntry, services: Services, clock: Clock, reach: int, excuses: HoldExcuses
) -> ChainPlan:
    """The entry's step. What it would pass over may have been held back and not missed: it is asked before anything is."""
    now = clock()
    plan = partial(plan_chain, revision, after=entry.after, now=now, oldest=now - services.retention, reach=reach)
    step = plan()
    if step.passed and (excused := excuses.of(revision.definition.options.queue)):
        return plan(excused=excused)
    return step


def _keys(entries: Sequence[AgendaEntry], result: TickCounts) -> list[tuple[AgendaEntry, tuple[str, int]]]:
    """The entries with the revisions they are about; one whose id is garbage fails by itself."""
    keys = []
    for entry in entries:
        try:
            keys.append((entry, revision_key(entry)))
        except ValueError as problem:
            result.failed_at(entry, problem)
    return keys


def revision_key(entry: AgendaEntry) -> tuple[str, int]:
    """The revision that a chain entry is about. Raises ValueError for an id that cannot be one: a table would refuse its batch."""
    owner, _, number = entry.id.rpartition("#")
    if not owner or len(number) > STAMP_DIGITS:
        raise ValueError(f"{entry.id!r} is not the id of a revision")
    return owner, int(number)


def _follow(links: Sequence[_Link], services: Services, clock: Clock, trace: str | None, result: TickCounts) -> None:
    """Claim and send the fires of planned links, record what they pass over, then let their chains move on."""
    made = materialise([order for link in links for order in link.orders], services, clock, trace=trace)
    result.made(made)
    finished = [link for link in links if all(order.ref in made.done for order in link.orders)]
    result.left += len(links) - len(finished)
    gaps = _gaps(finished, made, services, clock, result)
    again = [FireClaim(link.revision, fire) for link, gap in gaps for fire in gap.waiting]
    if again:
        sent = materialise(again, services, clock, trace=trace)
        result.made(sent)
        kept = [
            (link, gap) for link, gap in gaps if all(fire_ref(link.revision.owner, f) in sent.done for f in gap.waiting)
        ]
        result.left += len(gaps) - len(kept)
        gaps = kept
    _advance([link for link, _ in gaps], services, clock, result)


def _gaps(
    links: Sequence[_Link], made: MaterialiseResult, services: Services, clock: Clock, result: TickCounts
) -> list[tuple[_Link, MissedResult]]:
    """Record what each link passes over, and look whether another ticker has passed over what it claimed late."""
    done, now = [], clock()
    for link in links:
        step, fresh = link.step, [order for order in link.orders if order.ref in made.fresh]
        recorded = MissedResult()
        try:
            if step.passed or any(now - order.fire > LATE for order in fresh):
                recorded = record_missed(link.revision, step.passed, link.entry.after, services, clock)
        except Exception as problem:  # noqa: BLE001 (whatever is among this schedule's rows: its own failure)
            result.failed_at(link.entry, problem)
            continue
        late = [order.fire for order in fresh if order.ref in made.missed]
        if late or recorded.skipped:
            _say_missed(link, late, recorded, result)
        done.append((link, recorded))
    return done


def _say_missed(link: _Link, late: Sequence[int], recorded: MissedResult, result: TickCounts) -> None:
    revision, step = link.revision, link.step
    miss = MissedFires(tenant=revision.tenant, schedule=revision.name, late=len(late), skipped=max(recorded.skipped, 0))
    result.missing(miss)
    times = [*step.passed[:1], *step.passed[-1:], *late[:1], *late[-1:]]
    span = {"first": from_ms(min(times)).isoformat(), "last": from_ms(max(times)).isoformat()} if times else {}
    log.warning("schedule.missed", extra=vars(miss) | {"policy": str(revision.definition.options.catch_up)} | span)


def _advance(links: Sequence[_Link], services: Services, clock: Clock, result: TickCounts) -> None:
    """Put the next entries; where that was accepted (or there is none), the handled entry goes."""
    nexts = [link.step.following for link in links if link.step.following is not None]
    accepted = services.agenda.put(nexts) if nexts else frozenset()
    moved = []
    for link in links:
        following = link.step.following
        if following is not None and (following.key not in accepted or following.key == link.entry.key):
            result.left += 1  # not accepted; or the clock went back meanwhile, and the entry is its own next one
            continue
        if following is None and not _end(link, services, clock, result):
            continue
        result.cut += link.step.cut
        moved.append(link.entry)
    result.remove(moved, services)


def _end(link: _Link, services: Services, clock: Clock, result: TickCounts) -> bool:
    """The chain ends here: finish what its end means. False if that could not be answered."""
    try:
        if link.revision.active_until is not None:
            withdraw_beyond(link.revision, services, clock)
        elif link.step.exhausted:
            _complete(link.revision, services, clock, result)
    except Unavailable as problem:
        result.failed_at(link.entry, problem)
        return False
    return True


def _complete(revision: Revision, services: Services, clock: Clock, result: TickCounts) -> None:
    """Mark the schedule complete, or deleted if its owner wants that, unless it was changed meanwhile."""
    to = end_of(revision.definition.options)
    if services.schedules.complete(revision.tenant, revision.name, revision=revision.number, now=clock(), to=to):
        result.completed += 1
        log.info("schedule.completed", extra={"tenant": revision.tenant, "schedule": revision.name, "state": str(to)})

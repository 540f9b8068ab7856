"""Handle agenda entries: chains are materialised and leave their next entry, runs are sent, watches looked at.

The order of the writes is the protocol: claims, messages, the next entry, and only then the handled one goes. An entry of which
anything was not answered stays as it is; handling it again is harmless.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from minutehand.errors import Unavailable
from minutehand.flow.claim import Order, materialise
from minutehand.flow.handled import Handled
from minutehand.flow.ports import Clock, Services
from minutehand.flow.steps import REACH, Step, plan_step
from minutehand.flow.sweep import sweep_beyond
from minutehand.model.entry import Entry
from minutehand.model.moment import STAMP_DIGITS
from minutehand.model.schedule import Revision

log = logging.getLogger(__name__)

_FIRES_AT_ONCE = 2_000  # claimed and sent in one go: bounds memory, fills batches


def handle(
    entries: Sequence[Entry], services: Services, clock: Clock, *, reach: int = REACH, trace: str | None = None
) -> Handled:
    """Handle chain entries; each stays unless all of it was done. Raises Unavailable if nothing could be read."""
    result = Handled(entries=len(entries))
    group: list[_Link] = []
    fires = 0
    for link in _plan(entries, services, clock, reach, result):
        group.append(link)
        fires += len(link.step.fires)
        if fires >= _FIRES_AT_ONCE:
            _follow(group, services, clock, trace, result)
            group, fires = [], 0
    if group:
        _follow(group, services, clock, trace, result)
    return result


@dataclass(frozen=True)
class _Link:
    """An entry with what is to be done for it."""

    entry: Entry
    revision: Revision
    step: Step


def _plan(entries: Sequence[Entry], services: Services, clock: Clock, reach: int, result: Handled) -> Iterable[_Link]:
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
            revision, now = answer.found[key], clock()
            try:
                step = plan_step(revision, after=entry.after, now=now, oldest=now - services.retention, reach=reach)
            except Exception as problem:  # noqa: BLE001 (garbage, or a later release's: this entry's own failure)
                result.failed_at(entry, problem)
            else:
                yield _Link(entry, revision, step)
    result.remove(gone, services)


def _keys(entries: Sequence[Entry], result: Handled) -> list[tuple[Entry, tuple[str, int]]]:
    """The entries with the revisions they are about; one whose id is garbage fails by itself."""
    keys = []
    for entry in entries:
        try:
            keys.append((entry, revision_key(entry)))
        except ValueError as problem:
            result.failed_at(entry, problem)
    return keys


def revision_key(entry: Entry) -> tuple[str, int]:
    """The revision that a chain entry is about. Raises ValueError for an id that cannot be one: a table would refuse its batch."""
    owner, _, number = entry.id.rpartition("#")
    if not owner or len(number) > STAMP_DIGITS:
        raise ValueError(f"{entry.id!r} is not the id of a revision")
    return owner, int(number)


def _follow(links: Sequence[_Link], services: Services, clock: Clock, trace: str | None, result: Handled) -> None:
    """Claim and send the fires of planned links, then let their chains move on."""
    orders = {link.entry.key: [Order(link.revision, fire) for fire in link.step.fires] for link in links}
    made = materialise([order for part in orders.values() for order in part], services, clock, trace=trace)
    result.claimed += made.claimed
    result.taken_over += made.taken_over
    result.sent += made.sent
    result.resent += made.resent
    result.lag = max(result.lag, made.lag)
    finished = [link for link in links if all(order.ref in made.done for order in orders[link.entry.key])]
    result.left += len(links) - len(finished)
    _advance(finished, services, clock, result)


def _advance(links: Sequence[_Link], services: Services, clock: Clock, result: Handled) -> None:
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


def _end(link: _Link, services: Services, clock: Clock, result: Handled) -> bool:
    """The chain ends here: finish what its end means. False if that could not be answered."""
    try:
        if link.revision.active_until is not None:
            sweep_beyond(link.revision, services, clock)
        elif link.step.exhausted:
            _complete(link.revision, services, clock, result)
    except Unavailable as problem:
        result.failed_at(link.entry, problem)
        return False
    return True


def _complete(revision: Revision, services: Services, clock: Clock, result: Handled) -> None:
    """Mark the schedule complete, unless it was changed meanwhile."""
    if services.schedules.complete(revision.tenant, revision.name, revision=revision.number, now=clock()):
        result.completed += 1
        log.info("schedule.completed", extra={"tenant": revision.tenant, "schedule": revision.name})

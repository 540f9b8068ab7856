"""Handle agenda entries: chains are materialised and leave their next entry, runs are sent, watches looked at.

The order of the writes is the protocol: claims, messages, the next entry, and only then the handled one goes. An entry of which
anything was not answered stays as it is; handling it again is harmless.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from minutehand.errors import Unavailable
from minutehand.flow.claim import Order, materialise
from minutehand.flow.ports import Clock, Services
from minutehand.flow.publish import fire_message, one_off_message, publish
from minutehand.flow.steps import LOOKAHEAD, REACH, Step, plan_step
from minutehand.flow.sweep import sweep_beyond
from minutehand.model.entry import Entry, EntryKind
from minutehand.model.message import Message
from minutehand.model.moment import MINUTE, SECOND, STAMP_DIGITS
from minutehand.model.run import WAITING, Run, RunState
from minutehand.model.schedule import Revision
from minutehand.runs.transitions import SKEW, lose

log = logging.getLogger(__name__)

ORPHAN_PATIENCE = 10 * MINUTE  # how long an entry waits for the run that its submitter was about to put
_FIRES_AT_ONCE = 2_000  # claimed and sent in one go: bounds memory, fills batches


@dataclass(kw_only=True)
class Handled:
    """Counts of what handling entries did."""

    entries: int = 0  # looked at
    done: int = 0  # gone from the agenda
    claimed: int = 0  # runs created
    taken_over: int = 0  # runs taken over from an older revision
    sent: int = 0  # messages accepted
    resent: int = 0  # of these, for runs that were there already
    lost: int = 0  # at-most-once runs declared LOST
    completed: int = 0  # schedules without a further fire
    left: int = 0  # entries left for later because something was not answered
    failed: int = 0  # entries that failed for a reason of their own
    quarantined: int = 0  # of these, moved aside
    cut: int = 0  # chains with more due than one step takes
    lag: int = 0  # ms from a fire's time to the acceptance of its message: the largest
    failures: list[tuple[Entry, Exception]] = field(default_factory=list)  # of entries, for the caller to count on them

    def add(self, other: Handled) -> None:
        for name, value in vars(other).items():
            mine = getattr(self, name)
            setattr(self, name, max(mine, value) if name == "lag" else mine + value)


def handle(
    entries: Sequence[Entry], services: Services, clock: Clock, *, reach: int = REACH, trace: str | None = None
) -> Handled:
    """Handle entries of any kinds; each stays unless all of it was done."""
    result = Handled(entries=len(entries))
    chains = [e for e in entries if e.kind is EntryKind.CHAIN]
    if chains:
        _chains(chains, services, clock, reach, trace, result)
    for entry in entries:
        if entry.kind is not EntryKind.CHAIN:
            _one(entry, services, clock, trace, result)
    return result


# Chains.


@dataclass(frozen=True)
class _Link:
    """An entry with what is to be done for it."""

    entry: Entry
    revision: Revision
    step: Step


def _chains(
    entries: Sequence[Entry], services: Services, clock: Clock, reach: int, trace: str | None, result: Handled
) -> None:
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


def _plan(entries: Sequence[Entry], services: Services, clock: Clock, reach: int, result: Handled) -> Iterable[_Link]:
    """Read the revisions and plan each entry's step; one that cannot be planned stops no other."""
    keys = _keys(entries, result)
    answer = services.schedules.revisions({key for _, key in keys})
    gone = []
    for entry, key in keys:
        if key in answer.unanswered:
            result.left += 1
        elif key in answer.broken:
            _failed(entry, answer.broken[key], result)
        elif key not in answer.found:
            log.warning("entry.orphan", extra={"entry": entry.key})
            gone.append(entry)
        else:
            revision, now = answer.found[key], clock()
            try:
                step = plan_step(revision, after=entry.after, now=now, oldest=now - services.retention, reach=reach)
            except Exception as problem:  # noqa: BLE001 (garbage, or a later release's: this entry's own failure)
                _failed(entry, problem, result)
            else:
                yield _Link(entry, revision, step)
    _remove(gone, services, result)


def _keys(entries: Sequence[Entry], result: Handled) -> list[tuple[Entry, tuple[str, int]]]:
    """The entries with the revisions they are about; one whose id is garbage fails by itself."""
    keys = []
    for entry in entries:
        try:
            keys.append((entry, revision_key(entry)))
        except ValueError as problem:
            _failed(entry, problem, result)
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
    _remove(moved, services, result)


def _end(link: _Link, services: Services, clock: Clock, result: Handled) -> bool:
    """The chain ends here: finish what its end means. False if that could not be answered."""
    try:
        if link.revision.active_until is not None:
            sweep_beyond(link.revision, services, clock)
        elif link.step.exhausted:
            _complete(link.revision, services, clock, result)
    except Unavailable as problem:
        _failed(link.entry, problem, result)
        return False
    return True


def _complete(revision: Revision, services: Services, clock: Clock, result: Handled) -> None:
    """Mark the schedule complete, unless it was changed meanwhile."""
    if services.schedules.complete(revision.tenant, revision.name, revision=revision.number, now=clock()):
        result.completed += 1
        log.info("schedule.completed", extra={"tenant": revision.tenant, "schedule": revision.name})


# Single entries: runs and watches.


def _one(entry: Entry, services: Services, clock: Clock, trace: str | None, result: Handled) -> None:
    """Handle one run or watch entry; its failure is its own."""
    try:
        run = entry.kind is EntryKind.RUN
        done = _run(entry, services, clock, trace, result) if run else _watch(entry, services, clock, result)
    except Exception as problem:  # noqa: BLE001 (counted on the entry, quarantined in the end; nothing else stops)
        _failed(entry, problem, result)
        return
    if done:
        _remove([entry], services, result)
    else:
        result.left += 1


def _run(entry: Entry, services: Services, clock: Clock, trace: str | None, result: Handled) -> bool:
    """Send a waiting run's message. True when the entry may go."""
    run = services.ledger.read(entry.run)
    if run is None:
        return clock() - entry.created_at > ORPHAN_PATIENCE
    if run.state not in WAITING:
        return True
    if run.not_before > entry.due and run.not_before > clock() + LOOKAHEAD:
        return _put_again(entry, run.not_before, services)
    message = order_of(run, services, trace)
    if message is None:
        return True
    sent = publish([message], services.work, clock)[0]
    result.sent += sent
    return sent


def order_of(run: Run, services: Services, trace: str | None = None) -> Message | None:
    """The order to run a run that is in the ledger; None if its revision is gone. Raises Unavailable."""
    if run.ref.is_one_off:
        return one_off_message(run, trace)
    key = (run.ref.owner, run.revision)
    answer = services.schedules.revisions([key])
    if key in answer.broken:
        raise answer.broken[key]
    if key in answer.unanswered:
        raise Unavailable(f"revision {key[0]}#{key[1]} could not be read; it is tried again at the next tick")
    revision = answer.found.get(key)
    return None if revision is None else fire_message(run, revision, trace)


def _watch(entry: Entry, services: Services, clock: Clock, result: Handled) -> bool:
    """An at-most-once run still RUNNING past its lease is LOST; a live one is looked at again at its lease's end."""
    now, token = clock(), entry.id.rpartition("#")[2]
    run = services.ledger.read(entry.run)
    if run is None or run.state is not RunState.RUNNING or run.lease_token != token:
        announced = run is not None and run.state in WAITING and now < entry.due + SKEW
        return not announced  # the lease that it announces may still be on its way
    if now < entry.due:
        return False
    moved = services.ledger.move(run.ref, lose(now=now, expires=now + services.retention, token=token))
    if moved.applied:
        result.lost += 1
        log.warning("run.lost", extra={"run_id": str(run.ref), "job": run.job, "tenant": run.ref.tenant})
        return True
    until = max((moved.run or run).lease_until or 0, now) + SKEW + SECOND
    return _put_again(entry, until, services)


def _put_again(entry: Entry, due: int, services: Services) -> bool:
    """Leave the same entry at a later time."""
    later = replace(entry, due=due, failures=0)
    return later.key in services.agenda.put([later])


# Ends.


def _failed(entry: Entry, problem: Exception, result: Handled) -> None:
    if isinstance(problem, Unavailable):  # nobody's fault but the cloud's: later, and never quarantined for it
        result.left += 1
    else:
        result.failures.append((entry, problem))


def _remove(entries: Sequence[Entry], services: Services, result: Handled) -> None:
    if entries:
        result.done += len(services.agenda.remove(entries))

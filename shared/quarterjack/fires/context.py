"""What ticker, owner and auditor need first: the context, the counts, the agenda's pages, and revisions and runs that must exist."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from quarterjack.concurrency.rate_limits import WriteBudget
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import AgendaEntry, EntryKind, RunRow
from quarterjack.domain.schedule import Head, Revision
from quarterjack.domain.tenants.caller import Caller, role
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.errors import Misconfigured, NotFound, TooNew, Unavailable
from quarterjack.fires.gates import Gate
from quarterjack.ports.services import Clock, Services
from quarterjack.state.lease import SKEW
from quarterjack.stores.agenda import DuePage
from quarterjack.timing.timetables import LATEST
from quarterjack.values import replace, value

log = logging.getLogger(__name__)

FAR = LATEST  # UTC ms: no fire and no entry is later
LOOKAHEAD = 180 * SECOND  # ticks may be 119 s apart
REACH = 840 * SECOND  # how far ahead a plan may go: SQS delays 900 s
LATE_SEND = 5 * SECOND  # after its time, a fire's message is accepted late
PAGE = 500  # entries of one query: bounds memory, and fills the batches of 100 revisions and 25 claims


@dataclass
class NoticeRound:
    """The notices that one page of entries has delivered: few at once, and none to a topic that has just failed."""

    told: int = 0
    deaf: set[str] = field(default_factory=set)  # topics whose publication failed


@value(kw_only=True)
class FireContext:
    """The services, the time, and the limits of one tick or of one change by an owner."""

    services: Services
    clock: Clock
    ahead: int = LOOKAHEAD  # ms up to which a plan claims all fires
    reach: int = REACH  # ms that a chain's plan may cover for a few fires more; at most ``ahead``: none
    trace: str | None = None  # trace header that the messages carry
    gates: Sequence[Gate] = ()  # that entries pass before they are handled
    write_budget: WriteBudget = field(default_factory=WriteBudget)  # write units that the claims may take
    caller: Caller = field(default_factory=lambda: role("ticker"))  # in whose name it acts
    notices: NoticeRound = field(default_factory=NoticeRound)  # what was delivered with a page of entries


@value(kw_only=True)
class MissedFires:
    """The missed fires of one schedule."""

    tenant: str
    schedule: str
    late: int  # fires that are run late
    skipped: int  # fires that its policy skipped


@value(kw_only=True)
class BackfillProgress:
    """How far one backfill is."""

    tenant: str
    backfill: str  # its id
    created: int  # fires that were created since the ticker looked last
    left: int  # fires that are still to be created


@value()
class _Counts:
    """What a step has done. A caller adds what its steps return, field by field."""

    def __add__(self, other: Self) -> Self:
        mine, nothing = vars(self), type(self).__dict__  # a class has the defaults of its fields: what was not counted
        more = {name: mine[name] + count for name, count in vars(other).items() if count is not nothing[name]}
        return type(self)(**mine | more) if more else self


@value(kw_only=True)
class EntryCounts(_Counts):
    """What became of entries of the agenda."""

    entries: int = 0  # read
    done: int = 0  # removed from the agenda
    held: int = 0  # held back by backpressure or an open breaker
    left: int = 0  # left for later because a call got no response
    failures: tuple[tuple[AgendaEntry, Exception], ...] = ()  # of entries that failed by themselves
    quarantined: int = 0  # of these, moved aside

    @property
    def failed(self) -> int:
        """Entries that failed by themselves."""
        return len(self.failures)


@value(kw_only=True)
class FireCounts(_Counts):
    """What became of fires."""

    claimed: int = 0  # runs created
    taken_over: int = 0  # runs taken over from an older revision
    resent: int = 0  # runs that existed already and wait for a message
    misses: tuple[MissedFires, ...] = ()  # schedules with missed fires

    @property
    def missed(self) -> int:
        """Fires claimed more than a minute late."""
        return sum(each.late for each in self.misses)

    @property
    def skipped(self) -> int:
        """Missed fires that their schedules' policies skipped."""
        return sum(each.skipped for each in self.misses)


@value(kw_only=True)
class MessageCounts(_Counts):
    """What became of messages."""

    sent: int = 0  # accepted
    send_failed: int = 0  # not accepted: their entries stay
    lags: tuple[int, ...] = ()  # ms from a fire's time to the acceptance of its message; 0 if it was accepted ahead

    @property
    def sent_late(self) -> int:
        """Messages that were accepted more than LATE_SEND after their time."""
        return sum(lag > LATE_SEND for lag in self.lags)

    @property
    def lag(self) -> int:
        """The largest lag (ms)."""
        return max(self.lags, default=0)


@value(kw_only=True)
class ScheduleCounts(_Counts):
    """What became of schedules, backfills and incidents."""

    cut: int = 0  # chains with more due fires than one plan takes
    completed: int = 0  # schedules without a further fire
    lost: int = 0  # at-most-once runs declared LOST
    backfills: tuple[BackfillProgress, ...] = ()
    told: int = 0  # notices delivered
    incidents: int = 0  # that began because no run succeeded, or a run did not end, in time
    recovered: int = 0  # incidents that are over


@value(kw_only=True)
class WaitCounts(_Counts):
    """Parked runs of which a timer was due."""

    checks: tuple[tuple[str, int], ...] = ()  # of each the kind of its wait, and for how many ms it has waited


@value(kw_only=True)
class TickCounts(_Counts):
    """Counts of handled entries, by what they are about."""

    agenda: EntryCounts = EntryCounts()
    fires: FireCounts = FireCounts()
    messages: MessageCounts = MessageCounts()
    schedules: ScheduleCounts = ScheduleCounts()
    waits: WaitCounts = WaitCounts()

    def numbers(self) -> dict[str, int]:
        """All numbers by name, for a log line."""
        found = {name: value for group in vars(self).values() for name, value in vars(group).items()}
        counted = {name: value for name, value in found.items() if isinstance(value, int)}
        derived = {"failed": self.agenda.failed, "missed": self.fires.missed, "skipped": self.fires.skipped}
        return counted | derived | {"sent_late": self.messages.sent_late, "lag": self.messages.lag}


@value(kw_only=True)
class Handled:
    """What the handler of a timer returns."""

    may_go: bool  # whether its entry may be deleted
    counts: TickCounts = TickCounts()


NOTHING = TickCounts()
GOES, STAYS = Handled(may_go=True), Handled(may_go=False)  # of a timer that has nothing to count


def failed_at(entry: AgendaEntry, problem: Exception) -> TickCounts:
    """An entry stays. Its own failure is counted on it; if a service failed or refused, or a later release wrote it, it is only left.

    A refusal is a notice's own failure: its topic is of its owner's choice.
    """
    refused = isinstance(problem, Misconfigured) and entry.kind is not EntryKind.NOTICE
    if not (refused or isinstance(problem, (TooNew, Unavailable))):
        return TickCounts(agenda=EntryCounts(failures=((entry, problem),)))
    log.warning("entry.left", extra={"entry": entry.key, "error": str(problem)})
    return left(1)


def left(entries: int) -> TickCounts:
    """So many entries stay."""
    return TickCounts(agenda=EntryCounts(left=entries)) if entries else NOTHING


def removed(entries: Sequence[AgendaEntry], services: Services) -> TickCounts:
    """Remove handled entries from the agenda."""
    return TickCounts(agenda=EntryCounts(done=len(services.agenda.remove(entries)))) if entries else NOTHING


def sends(due: Sequence[int], accepted: Sequence[bool], now: int) -> MessageCounts:
    """Messages for these times (UTC ms), which were accepted or not at ``now``."""
    lags = [max(now - time, 0) for time, is_accepted in zip(due, accepted, strict=True) if is_accepted]
    return MessageCounts(sent=len(lags), send_failed=len(accepted) - len(lags), lags=tuple(lags))


def due_pages(shard: int, services: Services, *, upto: int = FAR) -> Iterator[DuePage]:
    """The entries of a shard due up to an instant (UTC ms), oldest first. Raises Unavailable."""
    after = None
    while True:
        page = services.agenda.due(shard, upto=upto, after=after, limit=PAGE)
        yield page
        after = page.last
        if after is None:
            return


def postpone(entry: AgendaEntry, due: int, services: Services) -> bool:
    """Put the same entry at another time (UTC ms); whether the agenda accepted it, so that the present one may go.

    At the same time it is the present one, which has to stay.
    """
    later = replace(entry, due=due, failures=0)
    return due != entry.due and later.key in services.agenda.put([later])


def next_look(now: int) -> int:
    """When (UTC ms) the entry of something that waits is due: at the next tick but those that clocks may have begun already.

    Ticks look ahead, so an entry that is to be seen in a minute is due later.
    """
    return -(-(now + 2 * SKEW) // MINUTE) * MINUTE + LOOKAHEAD


def run_must_exist(ref: RunRef, run: RunRow | None) -> RunRow:
    """The run, if there is one. Raises NotFound."""
    if run is None:
        raise NotFound(
            f"run_id={str(ref)!r}: there is no such run, or its retention is over; list_runs() shows those there are"
        )
    return run


def find_revision(owner: str, number: int, services: Services) -> Revision | None:
    """A revision, read strongly, if there is one. Raises Unavailable, Unreadable."""
    key = (owner, number)
    answer = services.schedules.revisions([key])
    if problem := answer.broken.get(key):
        raise problem
    if key in answer.unanswered:
        raise Unavailable(f"revision {number} of {owner!r} could not be read; try again")
    return answer.found.get(key)


def read_revision(owner: str, number: int, services: Services) -> Revision:
    """A revision that must be there. Raises as ``find_revision`` does; NotFound if the tables contradict each other."""
    revision = find_revision(owner, number, services)
    if revision is None:
        raise NotFound(f"revision {number} of {owner!r} is missing; run the auditor")
    return revision


def revision_of(head: Head, services: Services) -> Revision:
    """The head's current revision. Raises as ``read_revision`` does."""
    return read_revision(head.owner, head.revision, services)

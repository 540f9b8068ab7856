"""Whether ticks run and keep up, as the agenda shows it: ticks that write nothing leave no other trace.

After a tick nothing is due within the look-ahead of 180 s: it handles every chain that is, and ticks are 119 s apart at the most. So a
chain's entry that is still there at its time has seen no tick for 180 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from quarterjack.domain.run import AgendaEntry, EntryKind, parse_entry_key
from quarterjack.domain.schedule import ScheduleState
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.fires.backpressure import parts_of, read_hold_log
from quarterjack.fires.breakers import read_open
from quarterjack.fires.context import LOOKAHEAD
from quarterjack.ports.services import Services
from quarterjack.values import value

LATE = 2 * MINUTE  # behind: what the alarm of the stack rings at
SILENT = 150 * SECOND  # since the last tick of a shard: they are 119 s apart at the most


class TickerState(StrEnum):
    """Whether ticks keep up."""

    ON_TIME = "ON_TIME"  # nothing is late
    SILENT = "SILENT"  # no tick has come for more than 150 s; nothing is late yet
    LATE = "LATE"  # a fire is more than 120 s late


def state_of(*, behind: int, silent: int) -> TickerState:
    """The state of a ticker whose oldest unhandled fire is so many ms late, and of which nothing was seen for so many."""
    if behind > LATE:
        return TickerState.LATE
    return TickerState.SILENT if silent > SILENT else TickerState.ON_TIME


@value(kw_only=True)
class TickerHealth:
    """What the agenda says of the ticks."""

    waiting: Sequence[AgendaEntry] = ()  # chains that no tick has handled in time, oldest first in each shard
    failing: Sequence[AgendaEntry] = ()  # entries whose handling failed, and is tried again
    now: int = 0  # UTC ms

    @property
    def oldest(self) -> AgendaEntry | None:
        return min(self.waiting, key=lambda entry: entry.due, default=None)

    @property
    def behind(self) -> int:
        """Ms since the oldest fire was due that no tick has handled; 0: none is."""
        return 0 if self.oldest is None else max(self.now - self.oldest.due, 0)

    @property
    def silent(self) -> int:
        """Ms for which a shard has seen no tick, at least; 0: nothing tells of that."""
        return 0 if self.oldest is None else max(self.now + LOOKAHEAD - self.oldest.due, 0)

    @property
    def state(self) -> TickerState:
        return state_of(behind=self.behind, silent=self.silent)


def survey_ticks(services: Services, now: int, *, shards: int, limit: int) -> TickerHealth:
    """Read ``limit`` entries of each of so many shards that are due next, and the hold log. Raises Unavailable, Misconfigured.

    Entries of queues that are held back wait on purpose, as those of tenants with an open circuit breaker do, and those that fail say
    nothing about ticks.
    """
    broken = read_open(services, now)
    held = {queue for queue, hold in read_hold_log(services).queues.items() if hold.now is not None}
    waiting, failing = list[AgendaEntry](), list[AgendaEntry]()
    for shard in range(shards):
        page = services.agenda.due(shard, upto=now + LOOKAHEAD, after=None, limit=limit)
        failing += [entry for entry in page.entries if entry.failures]
        well = [entry for entry in page.entries if not entry.failures]
        chains = [entry for entry in well if entry.kind is EntryKind.CHAIN]
        waiting += [
            entry
            for entry in chains
            if not held & {*parts_of(entry, now, services.work)} and entry.tenant not in broken
        ]
    return TickerHealth(waiting=waiting, failing=failing, now=now)


def is_needed(key: str, services: Services) -> bool:
    """Whether a quarantined entry is still needed. A chain's is not once its schedule has another revision, or has ended."""
    _, kind, identity = parse_entry_key(key)
    if kind is not EntryKind.CHAIN:
        return True
    owner, _, number = identity.rpartition("#")
    tenant, _, name = owner.partition("/")
    head = services.schedules.head(tenant, name)
    return head is not None and head.state is ScheduleState.ACTIVE and head.revision == int(number)

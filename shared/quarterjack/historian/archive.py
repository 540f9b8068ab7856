"""Write every transition of a run to the archive: one object for each batch of the stream, and one for each busy tenant and hour in it.

A bucket bills each object that is written. So the transitions of small tenants share an object in the inbox, from which
``archive_compaction`` moves them to objects of their own, once an hour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from quarterjack.domain.history.archive_keys import inbox_key, object_key
from quarterjack.domain.history.archive_lines import by_hour, pack
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.history.transition_line import TransitionKind, TransitionLine
from quarterjack.domain.run import RunRow
from quarterjack.domain.times import DAY, SECOND
from quarterjack.historian.context import HistorianContext
from quarterjack.ports.services import Services
from quarterjack.state.history.run_changes import transition_of

BUSY = 200  # transitions of one tenant and hour in a batch, from which on they have an object of their own

Hours = Mapping[tuple[str, int], list[TransitionLine]]  # by tenant and beginning of the hour (UTC ms)


def archive(changes: Sequence[RunChange], context: HistorianContext) -> None:
    """Store the transitions of a batch. Raises Unavailable: call it again with the same batch."""
    store = context.services.archive
    if store.is_on:
        lines = (line for change in changes if (line := transition_of(change)) is not None)
        store.put(dict(_objects(by_hour(lines), context.batch)))


def archive_found(runs: Iterable[RunRow], services: Services) -> None:
    """Archive the states in which runs were found in the ledger, because the stream did not bring how they came there.

    It may be repeated: an equal state has an equal line. Raises Unavailable.
    """
    store = services.archive
    if store.is_on:
        lines = [line for run in runs if (line := transition_of(_found(run))) is not None]
        store.put(dict(_objects(by_hour(replace(line, kind=TransitionKind.REBUILT) for line in lines), "rebuilt")))


def _found(run: RunRow) -> RunChange:
    """As if the stream had brought the row, before everything that it will bring of it."""
    at = run.ended_at or run.leased_at or run.created_at
    return RunChange(ref=run.ref, sequence=0, at=at // SECOND * SECOND, old=None, new=run)


def _objects(hours: Hours, batch: str) -> Iterator[tuple[str, bytes]]:
    """The objects of a batch, each with its key."""
    small: dict[int, list[TransitionLine]] = defaultdict(
        list
    )  # by day: a reader of some hours should not meet those of months
    for (tenant, hour), lines in hours.items():
        if len(lines) < BUSY:
            small[hour // DAY] += lines
        else:
            content = pack(lines)
            yield object_key(tenant, hour, batch, content), content
    for lines in small.values():
        content, instants = pack(lines), [line.at for line in lines]
        yield inbox_key(min(instants), max(instants), batch, content), content

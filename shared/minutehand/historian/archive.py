"""Write every transition of a run to the archive: one object for each tenant, hour and batch of the stream.

An object's key follows from the batch and its content, so a batch that is delivered again overwrites what it stored before.
"""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Iterable, Sequence

from minutehand.domain.archive_keys import object_key
from minutehand.domain.run_change import RunChange
from minutehand.domain.times import HOUR
from minutehand.domain.transition_line import TransitionLine, line_of
from minutehand.historian.context import HistorianContext
from minutehand.state.run_changes import transition_of


def archive(changes: Sequence[RunChange], context: HistorianContext) -> None:
    """Store the transitions of a batch. Raises Unavailable: call it again with the same batch."""
    store = context.services.archive
    if not store.is_on:
        return
    hours: dict[tuple[str, int], list[TransitionLine]] = defaultdict(list)
    for change in changes:
        transition = transition_of(change)
        if transition is not None:
            hours[transition.tenant, transition.at // HOUR].append(transition)
    packed = ((tenant, hour * HOUR, pack(lines)) for (tenant, hour), lines in hours.items())
    store.put({object_key(tenant, at, context.batch, content): content for tenant, at, content in packed})


def pack(transitions: Iterable[TransitionLine]) -> bytes:
    """The content of an object: JSON lines in order of time, compressed. The same for the same transitions, in any order."""
    lines = [f"{line_of(each)}\n" for each in sorted(transitions, key=lambda each: each.order)]
    return gzip.compress("".join(lines).encode(), mtime=0)

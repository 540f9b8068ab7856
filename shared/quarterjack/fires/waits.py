"""Whether due runs wait for a worker: what the ledger says of a sample of schedules.

Read from the ledger, not from SQS: the oldest message of a queue may belong to a job that has been running for an hour.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import islice, takewhile

from quarterjack.domain.run import AgendaEntry, EntryKind, RunRow, RunState
from quarterjack.domain.schedule import Revision
from quarterjack.ports.services import Services
from quarterjack.state.backpressure import UNSTARTED, Standing, standing

_OF_TENANT = 2  # schedules of a tenant whose last due run is read to learn whether its runs start
_SAMPLE = 5  # schedules of a queue whose last run is read to learn how long it waits
_DEPTH = 25  # runs of one of them that are read to learn how long the oldest has waited


def age_of(own: Sequence[AgendaEntry], services: Services, now: int, waits: int) -> int | None:
    """How long (ms) runs of a part's schedules have waited that are due since ``waits`` ms; None unless most sampled ones do."""
    asked = _sampled(own, services, now)
    waiting = []
    for revision in asked:
        last = last_fire(revision.owner, services, upto=now - waits)
        if last is not None and is_unstarted(last):
            waiting.append(now - last.due)
    return min(waiting) if len(waiting) * 2 > len(asked) else None


def standings_of(
    entries: Sequence[AgendaEntry], tenants: Collection[str], services: Services, now: int
) -> dict[str, Standing]:
    """What the last due runs of a few schedules of each tenant say. Raises Unavailable."""
    chosen, seen = list[AgendaEntry](), Counter[str]()
    for entry in entries:
        tenant = entry.tenant
        if entry.kind is EntryKind.CHAIN and tenant in tenants and seen[tenant] < _OF_TENANT:
            seen[tenant] += 1
            chosen.append(entry)
    waits = defaultdict[str, list[bool | None]](list)
    for revision in _sampled(chosen, services, now, most=len(chosen)):
        last = last_fire(revision.owner, services, upto=now - UNSTARTED)
        waits[revision.tenant].append(None if last is None else is_unstarted(last))
    return {tenant: standing(found) for tenant, found in waits.items()}


def _sampled(entries: Iterable[AgendaEntry], services: Services, now: int, most: int = _SAMPLE) -> list[Revision]:
    """Some of the schedules of these entries whose runs wait for nothing but a worker."""
    chains = list(islice((e.id for e in entries if e.kind is EntryKind.CHAIN), most))
    keys = {
        (owner, int(number))
        for owner, _, number in (identity.rpartition("#") for identity in chains)
        if number.isdecimal()
    }
    tenants = {owner.partition("/")[0] for owner, _ in keys}
    answer = services.schedules.revisions_freezes_profiles(keys, tenants, now)
    stopped = answer.frozen.keys() | {of for of, found in answer.governance.items() if not found.profile.accepts}
    return [  # a QUEUED run of an exclusive schedule may wait for its turn, not for a worker
        revision
        for revision in answer.found.values()
        if not revision.definition.options.is_exclusive and revision.tenant not in stopped
    ]


def longest_wait(queue: str | None, entries: Iterable[AgendaEntry], services: Services, now: int) -> int | None:
    """How long (ms) the oldest due run has waited that a sample of the queue's schedules shows; None if the sample shows none.

    Each one's latest due runs are read as long as they wait, so the queue's oldest message is at least so old.
    """
    waiting = [
        now - run.due
        for revision in _sampled((entry for entry in entries if entry.queue == queue), services, now)
        for run in takewhile(is_unstarted, islice(services.ledger.latest(revision.owner, upto=now), _DEPTH))
    ]
    return max(waiting, default=None)


def last_fire(owner: str, services: Services, *, upto: int) -> RunRow | None:
    """The run of a schedule's last fire that was due up to an instant (UTC ms), if there is one. Raises Unavailable."""
    return next((run for run in services.ledger.latest(owner, upto=upto) if run.ref.is_fire), None)


def is_unstarted(run: RunRow) -> bool:
    """Whether a run is claimed and waits for a worker."""
    return run.state is RunState.QUEUED

"""Chains: every ACTIVE head has its open revision's entry in the agenda. A batch of heads is compared with one shard a step.

Heads are read before the agenda: a chain puts its next entry before it deletes the present one, so reading a shard upwards after the
heads cannot miss the chain. A chain that seems missing is read a second time, in the shard that its revision names, before it is
repaired. A batch has a bounded size, whatever the number of schedules.

The same walk removes the remains of a deleted schedule, a retention after its deletion, unless a run or an open backfill refers to it:

    head: the numbering only ──► revisions, oldest first ──► head: cleared

The head is written first, under its version: a caller who creates a schedule of the same name afterwards goes on with the numbering, and
reads no old revision. A caller who creates it at the same moment wins, or reads the head again. The oldest revision goes first: a worker
that has one of the revisions reads those after it, to find the deletion that cancels a late run.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from quarterjack.auditor.repairs import GRACE
from quarterjack.auditor.walk import Round
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.run import EntryKind, RunRow, RunState
from quarterjack.domain.schedule import Head, Revision, ScheduleState
from quarterjack.domain.times import DAY, HOUR
from quarterjack.errors import Unavailable
from quarterjack.fires.audit_entry import audit_entry, completion_entry
from quarterjack.fires.context import FAR, FireContext, due_pages, find_revision
from quarterjack.fires.plan import chain_entry, end_of, timetable_of
from quarterjack.owner.backfill.records import backfills_of
from quarterjack.owner.schedules.stop import resume_entry
from quarterjack.state.backfill import ENDED
from quarterjack.values import replace

log = logging.getLogger(__name__)

_PAGE = 1_000  # heads of a request


class _Armed(NamedTuple):
    """The fields of an ACTIVE head that the walk needs."""

    tenant: str
    name: str
    revision: int
    version: int

    @property
    def owner(self) -> str:
        return f"{self.tenant}/{self.name}"

    @property
    def chain(self) -> str:
        """The id of its entries."""
        return f"{self.owner}#{self.revision}"


_Chains = dict[str, _Armed]  # by id


class ChainWalk:
    """Through the heads in batches, each through the shards of the agenda; then the ends of pauses and deleted schedules of the batch."""

    share = 35

    def __init__(self, state: Round, *, batch: int, removes: bool) -> None:
        self._state, self._batch, self._removes = state, batch, removes
        self._chains: Mapping[int, _Chains] | None = None  # of the batch, by shard; None: no batch is read
        self._others: list[Head] = []  # of the batch: paused until a time, or deleted
        self._rest = ""  # cursor behind the batch

    def step(self) -> bool:
        progress = self._state.progress
        if self._chains is None:
            self._chains = self._read()
        shard = next((n for n in sorted(self._chains) if n >= progress.shard), None)
        if shard is not None:
            ids = {"shard": str(shard)}
            self._state.guarded(ids, partial(self._check_shard, shard, self._chains[shard]))
            progress.shard = shard + 1
            return False
        self._check_others()
        progress.heads, progress.shard, self._chains = self._rest, 0, None
        return not progress.heads

    def _read(self) -> Mapping[int, _Chains]:
        """The next batch. Raises Unavailable."""
        progress, found = self._state.progress, defaultdict[int, _Chains](dict)
        cursor, left, self._others = progress.heads, self._batch, []
        while left > 0:
            heads, cursor = self._state.services.schedules.scan_heads(cursor, limit=min(left, _PAGE))
            left -= len(heads)
            for head in heads:
                if head.state is ScheduleState.ACTIVE:
                    armed = _Armed(head.tenant, head.name, head.revision, head.version)
                    found[self._state.layout.shard_of(head.owner)][armed.chain] = armed
                elif head.resume_at is not None or head.state is ScheduleState.DELETED:
                    self._others.append(head)
            if not cursor:
                break
        self._rest = cursor
        if not progress.shard:
            self._state.report.schedules += sum(map(len, found.values()))
        return found

    # Chains.

    def _check_shard(self, shard: int, chains: _Chains) -> None:
        """Put the entry of every chain that has none. Raises Unavailable."""
        for home, suspects in self._by_home(shard, self._without_entry(shard, chains)).items():
            for head in self._without_entry(home, suspects).values():
                self._state.guarded({"schedule": head.owner}, partial(self._rearm, head))

    def _without_entry(self, shard: int, chains: _Chains) -> _Chains:
        """The chains that have no entry in a shard, waiting or moved aside."""
        agenda, missing = self._state.services.agenda, dict(chains)
        for key in agenda.quarantined(shard):
            missing.pop(key.split("#", 2)[2], None)
        for page in due_pages(shard, self._state.services) if missing else ():
            for entry in page.entries:
                if entry.kind is EntryKind.CHAIN:
                    missing.pop(entry.id, None)
            for key in page.newer:
                missing.pop(key.split("#", 2)[-1], None)
            if not missing:
                break
        return missing

    def _by_home(self, shard: int, suspects: _Chains) -> Mapping[int, _Chains]:
        """Suspects by the shard that their revisions name: chains move after a change of the layout, not with it."""
        found = defaultdict[int, _Chains](dict)
        keys = {(head.owner, head.revision): chain for chain, head in suspects.items()}
        revisions = self._state.services.schedules.revisions(keys.keys()).found if keys else {}
        for key, chain in keys.items():
            revision = revisions.get(key)
            found[shard if revision is None else revision.shard][chain] = suspects[chain]
        return found

    def _rearm(self, head: _Armed) -> None:
        """Put the chain's entry again, from the last fire that has a run on: no fire is skipped, none is claimed twice."""
        services, report = self._state.services, self._state.report
        now = services.schedules.head(head.tenant, head.name)
        revision = find_revision(head.owner, head.revision, services)
        if now is None or now.version != head.version or revision is None or revision.active_until is not None:
            return  # the schedule was changed meanwhile
        after = max(self._reached(revision), revision.active_from)
        due = timetable_of(revision).next(after)
        if due is None:
            to = end_of(revision.definition.options)
            audit = completion_entry(revision, self._state.context)
            report.rearmed += services.schedules.complete(audit, revision=head.revision, to=to)
            return
        entry = chain_entry(revision, due, after)
        if entry.key not in services.agenda.put([entry]):
            raise Unavailable(f"the entry of {head.owner} was not accepted")
        log.error("audit.rearmed", extra={"tenant": head.tenant, "schedule": head.name, "entry": entry.key})
        report.rearmed += 1

    def _reached(self, revision: Revision) -> int:
        """The last instant (UTC ms) that the revision's chain planned, by its runs and its rows of skipped fires."""
        for run in self._state.services.ledger.latest(revision.owner, upto=FAR):
            planned = run.skipped_until is not None or (is_of_chain(run) and run.state is not RunState.SKIPPED)
            if run.revision == revision.number and planned:
                return run.skipped_until or run.due
        return 0

    # The other heads.

    def _check_others(self) -> None:
        report, heads = self._state.report, self._others
        report.rearmed += self._check_pauses(heads)
        if self._removes:
            gone = retire_all(heads, self._state.context, self._state.guarded, self._state.is_over)
            report.retired += gone.schedules
            report.revisions += gone.revisions

    def _check_pauses(self, heads: list[Head]) -> int:
        """Put the entries again that should have ended pauses by now; how many. Putting an entry that is there changes nothing."""
        shard_of, late = self._state.layout.shard_of, self._state.clock() - GRACE
        due = [head for head in heads if head.resume_at is not None and head.resume_at < late]
        ends = [entry for head in due if (entry := resume_entry(head, shard_of(head.owner))) is not None]
        for entry in ends:
            log.error("audit.rearmed", extra={"entry": entry.key})
        return len(self._state.services.agenda.put(ends)) if ends else 0


def is_of_chain(run: RunRow) -> bool:
    """Whether a chain claimed the fire: the run of a trigger or a backfill says nothing about the fires before it."""
    return run.ref.is_fire and run.backfill is None


MARGIN = DAY  # beyond the retention: the life of a client token, and what clocks may differ
_REVISIONS = 1_000  # of one schedule that one audit removes: 5 s


@dataclass(kw_only=True)
class Retired:
    """Counts of removed rows."""

    schedules: int = 0  # of whose heads only the numbering is left
    revisions: int = 0


def retire_all(
    heads: Iterable[Head],
    context: FireContext,
    guarded: Callable[[dict[str, str], Callable[[], None]], None],
    is_over: Callable[[], bool],
) -> Retired:
    """Retire the heads that are due. No head is begun once it ``is_over``; ``guarded`` keeps a failure from stopping the others."""
    found, now = Retired(), context.clock()
    due = sorted(
        (head for head in heads if _is_due(head, now, context.services.retention)), key=lambda head: head.owner
    )
    # A head that is referred to for years is checked each hour: the order rotates, so that all get their turn in little time.
    first = now // HOUR * 7_919 % len(due) if due else 0
    for head in (*due[first:], *due[:first]):
        if is_over():
            break
        guarded({"schedule": head.owner}, partial(_retire, head, context, found))
    return found


def _is_due(head: Head, now: int, retention: int) -> bool:
    if head.clearing:
        return True
    return (
        head.state is ScheduleState.DELETED and head.retired_at is None and head.updated_at < now - retention - MARGIN
    )


def _retire(head: Head, context: FireContext, found: Retired) -> None:
    """Retire one schedule, or go on where an audit stopped. Raises Unavailable."""
    services = context.services
    if not head.clearing:
        if _is_referred_to(head, context):
            return
        after = head.retired(context.clock())
        audit = audit_entry(AuditAct.RETIRE, head.owner, context, before=head, after=after)
        if not services.schedules.close(after, expected=head.version, revision=None, audit=audit):
            return  # it was created anew meanwhile
        log.info("audit.retired", extra={"tenant": head.tenant, "schedule": head.name})
        found.schedules += 1
        head = after
    removed = services.upkeep.remove_revisions(head.owner, upto=head.revision, most=_REVISIONS)
    found.revisions += removed
    if removed < _REVISIONS:
        cleared = replace(head, clearing=False, version=head.version + 1)
        services.schedules.close(cleared, expected=head.version, revision=None)


def _is_referred_to(head: Head, context: FireContext) -> bool:
    services = context.services
    return services.upkeep.has_runs(head.owner) or any(
        backfill.state not in ENDED for backfill in backfills_of(head.owner, services)
    )

"""Facts: all that was read about one fire or run, as of one instant where several rows must agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from quarterjack.domain.audit import AuditEntryRow
from quarterjack.domain.job_catalogue import JobCatalogue
from quarterjack.domain.names import RunRef
from quarterjack.domain.policies import Overrides, Priority
from quarterjack.domain.run import AgendaEntry, FailedAttemptRow, RunRow, RunState
from quarterjack.domain.schedule import Freeze, Head, Revision
from quarterjack.domain.tenants.profile import Governance
from quarterjack.owner.runs.pipelines import PipelineState
from quarterjack.state.backfill import StoredBackfill
from quarterjack.state.backpressure import QueueDepth, QueueHolds
from quarterjack.state.overlap import Turns
from quarterjack.state.run_spec import own_overrides
from quarterjack.state.tenants.breaker import TenantBreakers
from quarterjack.state.tenants.caps import ConcurrencyCap
from quarterjack.state.tenants.permits import CapPermits
from quarterjack.state.worker_record import WorkerRow
from quarterjack.why.answer import Cause, Sentence, show


@dataclass(frozen=True, kw_only=True)
class Chain:
    """What the agenda has of the chain of a revision."""

    entry: int | None  # UTC ms at which its entry is due; None: there is none up to ``upto``
    upto: int  # UTC ms: entries due later were not read
    quarantined: bool = False  # its entry was moved aside
    missing: bool = False  # it has none at all, although it needs one
    unknown: bool = False  # too many entries are due before it to read them all
    oldest: AgendaEntry | None = None  # the first entry of the schedule's shard that is due

    @property
    def passed(self) -> bool:
        """Whether all fires up to ``upto`` were handled."""
        return not (self.quarantined or self.unknown) and (self.entry is None or self.entry > self.upto)


@dataclass(frozen=True, kw_only=True)
class HoldFacts:
    """Evidence of what may hold runs of the tenant."""

    freeze: Freeze | None = None  # the last one, also if it is over
    entries: Sequence[
        AuditEntryRow
    ] = ()  # freezes and suspensions while the run waited, if the present ones do not tell
    governance: Governance | None = None  # profile and limits, as of a few seconds ago; None: not read
    breakers: TenantBreakers | None = None  # None: the tenant has no circuit breaker, or they were not read
    cap: tuple[ConcurrencyCap, CapPermits] | None = None  # the concurrency cap in whose wait queue the run is


@dataclass(frozen=True, kw_only=True)
class DeliveryFacts:
    """Evidence about the queue of the run and its workers."""

    held_back: QueueHolds | None = None  # the times in which the ticker held the queue back
    depth: Sequence[QueueDepth] = ()  # of the queue's SQS queues
    workers: Sequence[WorkerRow] | None = None  # records of all, or of the run's worker; None: not asked for
    catalogue: JobCatalogue | None = None  # the jobs that workers published; None: not asked for


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All evidence about one question. None or empty: it was not found, or does not matter; ``unread`` says what could not be read."""

    now: int  # UTC ms
    retention: int  # ms for which ended runs stay in the ledger
    tenant: str
    at: int  # UTC ms: the instant that was asked about, or the due time of the run
    ref: RunRef | None = None  # the run that was asked about, or that the fire at ``at`` has; None: it can have none
    head: Head | None = None  # of its schedule; None for a one-off
    revisions: Sequence[Revision] = ()  # newest first
    all_revisions: bool = True  # whether the oldest of them is the schedule's first
    run: RunRow | None = None  # its row
    attempts: Sequence[FailedAttemptRow] = ()  # failed ones, oldest first
    children: Mapping[str, RunState | None] | None = (
        None  # that a parked run waits for, by step; None in place of a state: it has no row
    )
    items: tuple[int, int, int] | None = None  # of the map that it waits for: ended, under way, in all
    pipeline: PipelineState | None = (
        None  # whose tasks the run waits for; of a task that was not started: its pipeline's
    )
    gaps: Sequence[RunRow] = ()  # rows of passed-over fires that cover the instant
    before: Sequence[RunRow] = ()  # rows of the schedule due up to the instant, newest first, without ``run``
    chain: Chain | None = None  # of the revision that has the fire
    turn: Turns | None = None  # of a schedule that bounds its runs
    entries: Sequence[
        AuditEntryRow
    ] = ()  # of the audit about the schedule or run, at the times that matter, newest first
    backfill: StoredBackfill | None = None  # that the run belongs to
    redriven: RunRow | None = None  # the run that repeats it by a redrive
    holds: HoldFacts = HoldFacts()
    delivery: DeliveryFacts = DeliveryFacts()
    unread: Mapping[str, str] = field(default_factory=dict)  # evidence that could not be read, and why

    @property
    def owner(self) -> str:
        return f"{self.tenant}/{'' if self.head is None else self.head.name}"

    @cached_property
    def governing(self) -> int | None:
        """The place in ``revisions`` of the one that was current at ``at``, ended or not; None: it was before all of them."""
        return next((place for place, one in enumerate(self.revisions) if one.active_from < self.at), None)

    @property
    def queue(self) -> str | None:
        """The declared queue of the run, or of the fire; None: the default one."""
        if self.run is not None and self.run.ref.is_one_off:
            return self.run.queue
        return None if self.defining is None else self.defining.definition.options.queue

    @property
    def priority(self) -> Priority:
        """Of the run, or of the fire."""
        own = None if self.run is None else self.run.overrides
        of_schedule = Overrides() if self.defining is None else self.defining.definition.overrides
        return own_overrides(of_schedule, own).priority or Priority.NORMAL

    @property
    def job(self) -> str | None:
        """Of the run, or of the fire."""
        if self.run is not None:
            return self.run.job
        return None if self.defining is None else self.defining.definition.job

    def revision(self, number: int | None) -> Revision | None:
        return next((one for one in self.revisions if one.number == number), None)

    @cached_property
    def defining(self) -> Revision | None:
        """The revision that defines the run; without a run the one that was current."""
        if self.run is not None:
            return self.revision(self.run.defined_by or self.run.revision)
        return None if self.governing is None else self.revisions[self.governing]


def of_run(run: RunRow, text: str, cause: Cause | None = None) -> Sentence:
    """A sentence that the row of a run says."""
    return Sentence(text=text, source=f"run {run.ref}", cause=cause)


def of_revision(revision: Revision, text: str, cause: Cause | None = None) -> Sentence:
    return Sentence(text=text, source=f"revision {revision.number} of {revision.owner}", cause=cause)


def by_rule(revision: Revision, text: str, cause: Cause | None = None) -> Sentence:
    """A sentence that follows from a revision's rule."""
    return Sentence(text=text, source=f"computed from the rule of revision {revision.number}", cause=cause)


def of_head(head: Head, text: str, cause: Cause | None = None) -> Sentence:
    return Sentence(text=text, source=f"schedule {head.owner}", cause=cause)


def of_agenda(text: str, cause: Cause | None = None) -> Sentence:
    return Sentence(text=text, source="agenda", cause=cause)


def not_known(text: str) -> Sentence:
    """What the evidence does not tell."""
    return Sentence(text=text, source="not recorded")


def of_act(entry: AuditEntryRow) -> Sentence:
    """A sentence about an act, from its audit entry."""
    whose = "" if entry.identity is None else f", as {entry.identity}"
    reason = "" if entry.reason is None else f" The reason given: {entry.reason}"
    text = f"The {entry.act.replace('-', ' ')} of {show(entry.at)} was by {entry.actor}{whose}, by way of {entry.via}.{reason}"
    return Sentence(text=text, source=f"audit entry {entry.id}")

"""What a message becomes on its way through the worker: received, ready, leased, ended; and the outcome for its message.

ReceivedMessage ─► ReadyRun ─► LeasedRun ─► EndedRun     each holds the one before it, and is made by one step
├ delivery, message      what the queue delivered
├ definition             what the read of its batch says of the run
└ in_flight              what other threads see of it: permits, lease, progress
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from quarterjack.domain.job import Job
from quarterjack.domain.message import Message
from quarterjack.domain.names import RunRef
from quarterjack.domain.policies import Delivery as Guarantee
from quarterjack.domain.policies import Policies
from quarterjack.domain.run import TERMINAL, Failure, RunRow, RunState
from quarterjack.domain.schedule import Revision
from quarterjack.domain.tenants.profile import Governance
from quarterjack.errors import Unreadable
from quarterjack.masking import SecretValues, of_process
from quarterjack.ports.queues import RawMessage
from quarterjack.state.run_spec import RunSpec
from quarterjack.stores.schedule_rows import RevisionBatch, RevisionKey
from quarterjack.values import value
from quarterjack.worker.delivery.visibility import InFlightMessage

ENDED = "ended"  # the reason of a lease that was refused because the run is over


class Action(StrEnum):
    """What the worker did."""

    SETTLED = "settled"  # the run's attempt was recorded, or its end
    REFUSED = "refused"  # the run does not start by this message
    POSTPONED = "postponed"  # a new message comes later
    WAITING = "waiting"  # another worker holds the lease
    KEPT = "kept"  # the message comes back
    RELEASED = "released"  # this process stops, and has shown the message to others
    LOST = "lost"  # another worker may have the run
    UNREADABLE = "unreadable"  # it went to the dead-letter queue
    REJECTED = "rejected"  # no row or revision stands behind it: it went to the dead-letter queue


class Acknowledgement(Enum):
    """What happens with the message."""

    DELETE = "deleted"
    SHOW = "comes back at ``at``"
    RESEND = "``order`` is sent for ``at`` in its place; comes back at ``otherwise`` if that is not accepted"
    LEAVE = "neither: its visibility is somebody else's"


@value(kw_only=True)
class Outcome:
    """The end of one delivery."""

    action: Action
    acknowledgement: Acknowledgement = Acknowledgement.DELETE
    at: int = 0  # UTC ms
    otherwise: int = 0  # UTC ms
    order: Message | None = None
    why: str = ""  # the reason, as a word
    state: RunState | None = None  # the run's state if this delivery set it
    start_lag: int | None = None  # ms from due to start, of a first attempt
    attempt: int = 0  # number of the run's last attempt, if this delivery has ended it or the run; 0: neither
    duration: int | None = None  # ms from the start of the attempt that ran to its end; None if none did

    @property
    def gone(self) -> bool:
        """Whether the message is deleted; if not, it comes back by itself."""
        return self.acknowledgement is Acknowledgement.DELETE

    @property
    def is_over(self) -> bool:
        """Whether the run has ended, by this delivery or before it."""
        return self.state in TERMINAL or self.why == ENDED

    @classmethod
    def refused(cls, why: str, state: RunState | None = None) -> Outcome:
        """The run does not start by this message; ``state`` is what it became by that."""
        return cls(action=Action.REFUSED, why=why, state=state)

    @classmethod
    def ended(cls, why: str, state: RunState | None, start_lag: int | None = None, attempt: int = 0) -> Outcome:
        """The run was brought to its end without an attempt of this worker; ``attempt``: the number of its last one."""
        return cls(action=Action.SETTLED, why=why, state=state, start_lag=start_lag, attempt=attempt)

    @classmethod
    def postponed(cls, why: str, *, order: Message, at: int, otherwise: int) -> Outcome:
        """``order`` is sent for ``at`` in place of the message."""
        return cls(
            action=Action.POSTPONED,
            why=why,
            acknowledgement=Acknowledgement.RESEND,
            order=order,
            at=at,
            otherwise=otherwise,
        )

    @classmethod
    def kept(cls, why: str, *, at: int, action: Action = Action.KEPT) -> Outcome:
        """Nothing is known to be wrong with the message: it comes back."""
        return cls(action=action, why=why, acknowledgement=Acknowledgement.SHOW, at=at)

    @classmethod
    def left(cls, action: Action, why: str) -> Outcome:
        """The run, and with it the message, is somebody else's."""
        return cls(action=action, why=why, acknowledgement=Acknowledgement.LEAVE)


@value(kw_only=True)
class RunDefinition:
    """What the read of a batch says of one run: its row, the revision that defines it, what holds for its tenant."""

    row: RunRow | None = None  # as it was received, if it says more than the revision
    row_unread: bool = False  # there may be such a row
    revision: Revision | None = (
        None  # that its message is of, if there is one and it was read: the schedule's options are of it
    )
    defined_by: RevisionKey | None = (
        None  # the revision that defines it; None for a one-off, and without the row that says which
    )
    spec: RunSpec | None = None  # what the run executes, if its row and its revision could be read
    governance: Governance | None = None  # what holds for its tenant; None if that is not known
    batch: RevisionBatch = field(
        default_factory=RevisionBatch
    )  # of all messages: freezes, and revisions that were not read

    @property
    def is_exclusive(self) -> bool:
        """Whether runs of its schedule must not overlap."""
        return self.revision is not None and self.revision.definition.options.is_exclusive


@value(kw_only=True)
class ReceivedMessage:
    """One delivery, with what was read for it."""

    delivery: RawMessage
    message: Message
    in_flight: InFlightMessage
    definition: RunDefinition
    ahead: bool = False  # its run may be leased before its instant
    alone: bool = False  # a batch's request for its lease was refused: it asks by itself


@value(kw_only=True)
class UnreadableMessage:
    """One delivery that is none of our messages, or of a later release."""

    delivery: RawMessage
    in_flight: InFlightMessage
    problem: Unreadable
    message: None = None


@dataclass(eq=False, kw_only=True)
class ReadyRun:
    """A run that nothing keeps from its lease, or so it seems until every reason was asked."""

    received: ReceivedMessage
    message: Message  # that was received
    in_flight: InFlightMessage  # likewise
    job: Job
    spec: RunSpec  # what its row and its revision say
    policies: Policies  # of the job, with what the spec overrides
    payload: str | None  # JSON text
    governance: Governance  # what holds for its tenant, as it was admitted by
    as_of: int = 0  # UTC ms by which the reasons not to start it are judged: set anew after whatever takes time

    @property
    def is_at_most_once(self) -> bool:
        return self.policies.delivery is Guarantee.AT_MOST_ONCE

    @property
    def ahead(self) -> bool:
        """Whether its lease is taken before its instant and dated at it: its job begins later than the lease says."""
        return self.received.ahead


@dataclass(eq=False, kw_only=True)
class LeasedRun(ReadyRun):
    """A run that this worker holds the lease of."""

    rescued: bool = False  # its last worker had let its lease pass
    run: RunRow  # as leased; of a run that was leased ahead, ``started_at`` is set again when its job begins
    results: list[AttemptResult] = field(default_factory=list)  # how its job ended, once it has
    checkpointed: bool = False  # this attempt has recorded a checkpoint since its lease
    submitted: list[RunRef] = field(default_factory=list)  # children, by this slice
    mapped: list[str] = field(default_factory=list)  # steps of maps that this slice has begun
    hidden: SecretValues = field(default_factory=SecretValues)  # the secrets that its job has looked up
    ids: Mapping[str, str] = field(init=False)  # of its run, in log lines

    def __post_init__(self) -> None:
        ref = self.run.ref
        self.ids = {"run_id": str(ref), "job": self.job.name, "tenant": ref.tenant}

    def masked(self, text: str) -> str:
        """A text of its job without its secrets, and without others of its tenant that this process has looked up: clients are shared."""
        return of_process.whole(self.hidden.text(text), self.run.ref.tenant)

    @property
    def should_be_in_time(self) -> bool:
        """Whether this is the run's first start, and not late on purpose: filled in, or after a wait for a permit or a breaker."""
        run = self.run
        return run.attempt == 1 and run.slices == 0 and run.backfill is None and not self.message.waited

    @property
    def began_at(self) -> int:
        """UTC ms at which this attempt began: with its lease, or when its job began if it was leased ahead."""
        return (self.run.started_at if self.ahead else self.run.leased_at) or 0

    def hide(self, value: str, label: str, *, tenant: str) -> None:
        """Mask a value from now on: in the texts of this run, in lines of this process, and in errors of the ``tenant``, if it is one's."""
        self.hidden.add(value, label)
        of_process.add(value, tenant)


# How an attempt ended.


@value()
class Returned:
    """The job returned; ``result`` is JSON text, or None with the reason in ``note`` if it could not be kept."""

    result: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Failed:
    """The job raised, or took longer than its timeout."""

    failure: Failure
    claim: str = ""  # "RunCancelled" or "LeaseLost" if it raised that, which the worker knows better


@dataclass(frozen=True)
class SliceEnded:
    """The job asked to go on from its checkpoint in a new slice."""


@dataclass(frozen=True)
class Parked:
    """The job waits for something that has not happened yet."""

    reason: str  # in words
    awaits: str  # see ``state.waits.park``
    wake_at: int  # UTC ms at which the wait ends whatever happens
    asked: tuple[str, ...]  # all requests of the job, in their order: see ``state.waits.asked``
    terms: str | None = (
        None  # of a wait for a signal, as stored text: see ``state.waits.terms``; None: none, or stored already
    )


@dataclass(frozen=True)
class Cancelled:
    """The job ended because its cancellation was asked for, or did not end within its grace."""

    reason: str
    failure: Failure | None = None


@dataclass(frozen=True)
class Abandoned:
    """The lease is lost: whatever the job still does is nobody's outcome."""


@dataclass(frozen=True)
class NotBegun:
    """It was leased ahead of its instant, and its turn came too late: the job was not called."""


AnyMessage = ReceivedMessage | UnreadableMessage
AttemptResult = Returned | Failed | SliceEnded | Parked | Cancelled | Abandoned | NotBegun
EndedRun = tuple[LeasedRun, AttemptResult]

"""What a message becomes on its way through the worker: received, ready, leased, and how its attempt ended.

Each stage holds the one before it. ``InFlightMessage`` is the part that the heartbeat sees from the receipt to the end.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property

from minutehand.domain.formats.message import Message
from minutehand.domain.job import Job
from minutehand.domain.names import RunRef
from minutehand.domain.policies import Delivery as Guarantee
from minutehand.domain.policies import Policies
from minutehand.domain.quick import quick
from minutehand.domain.run import Failure, RunRow
from minutehand.domain.schedule import Revision
from minutehand.errors import Unreadable
from minutehand.ports.schedules import RevisionBatch
from minutehand.ports.work_queue import RawMessage
from minutehand.worker.crash_quarantine import Stay


@dataclass(eq=False)
class InFlightMessage:
    """A message that this process keeps hidden, and the lease on its run once there is one."""

    receipt: str
    ref: RunRef
    fence: int | None = None  # of the lease; None before it and after its run was settled
    lost: bool = False  # another worker may have the run
    unbegun: bool = False  # leased ahead of its instant, and its job has not begun
    at_most_once: bool = False  # its message goes before the job's code, and its run is never given to another worker
    cancel_seen: int | None = None  # UTC ms at which a heartbeat saw that the run's cancellation was asked for
    checkpointed: bool = False  # this attempt has recorded a checkpoint since its lease
    progress: float | None = None  # 0 to 1, for the next heartbeat
    stage: str | None = None  # likewise
    stay: Stay | None = None  # in the crash quarantine
    finished: bool = False  # its outcome was reported
    changed: threading.Condition = field(default_factory=threading.Condition)  # notified when any of this changes

    def finish(self) -> None:
        """Its outcome is known, and its message acknowledged."""
        self.finished = True
        if self.stay is not None:
            self.stay.end()

    def lose(self) -> None:
        """Another worker may have the run, or will."""
        self.lost = True  # before the condition is read: a watch that replaces it looks afterwards
        self._wake()

    def see_cancel(self, now: int) -> None:
        """The run's owner asked for its cancellation."""
        if self.cancel_seen is None:
            self.cancel_seen = now
            self._wake()

    def _wake(self) -> None:
        changed = self.changed  # read once: a watch may replace it meanwhile
        with changed:
            changed.notify_all()


@quick
@dataclass(frozen=True, kw_only=True)
class ReceivedMessage:
    """One delivery, decoded, with what was read for its batch."""

    delivery: RawMessage
    in_flight: InFlightMessage
    message: Message | None  # None if it cannot be read
    problem: Unreadable | None = None  # why not
    revisions: RevisionBatch = field(default_factory=RevisionBatch)  # of the whole batch
    ahead: bool = False  # its run may be leased before its instant
    alone: bool = False  # a batch's request for its lease was refused: it asks by itself

    @cached_property
    def revision(self) -> Revision | None:
        """The revision that its message is of, if there is one and it was read."""
        message = self.message
        return None if message is None else self.revisions.found.get((message.run.owner, message.revision))


@quick
@dataclass(frozen=True, kw_only=True)
class ReadyRun:
    """A run that nothing keeps from its lease, or so it seems until every reason was asked."""

    received: ReceivedMessage
    message: Message
    job: Job
    policies: Policies  # of the job, with what the message overrides
    payload: str | None  # JSON text

    @property
    def is_at_most_once(self) -> bool:
        return self.policies.delivery is Guarantee.AT_MOST_ONCE


@dataclass(eq=False, kw_only=True)
class LeasedRun:
    """A run that this worker holds the lease of."""

    ready: ReadyRun
    in_flight: InFlightMessage
    run: RunRow  # as leased; of a run that was leased ahead, ``started_at`` is set again when its job begins
    results: list[AttemptResult] = field(default_factory=list)  # how its job ended, once it has

    @property
    def message(self) -> Message:
        return self.ready.message

    @property
    def job(self) -> Job:
        return self.ready.job

    @property
    def policies(self) -> Policies:
        return self.ready.policies

    @property
    def ahead(self) -> bool:
        """Whether its lease was taken before its instant and dated at it: its job begins later than the lease says."""
        return self.ready.received.ahead

    @property
    def fence(self) -> int:
        return self.run.fence


# How an attempt ended.


@quick
@dataclass(frozen=True)
class Returned:
    """The job returned; ``result`` is JSON text, or None with the reason in ``note`` if it could not be kept."""

    result: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Failed:
    """The job raised, or took longer than its timeout."""

    failure: Failure


@dataclass(frozen=True)
class SliceEnded:
    """The job asked to go on from its checkpoint in a new slice."""


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


AttemptResult = Returned | Failed | SliceEnded | Cancelled | Abandoned | NotBegun
EndedRun = tuple[LeasedRun, AttemptResult]

"""An assignment: one leased run at one worker, with all that executing and settling it needs."""

from __future__ import annotations

from dataclasses import dataclass

from minutehand.domain.formats.message import Message
from minutehand.domain.job import Job
from minutehand.domain.policies import Policies
from minutehand.domain.quick import quick
from minutehand.domain.run import Failure, RunRow
from minutehand.flow.desk import Desk
from minutehand.flow.heartbeat import Ticket


@quick
@dataclass(frozen=True, kw_only=True)
class Assignment:
    """A run that this worker holds the lease of."""

    desk: Desk  # whose
    ticket: Ticket  # its message, kept hidden by the heartbeat
    message: Message  # the order
    body: str  # the order as it was received, for the dead-letter queue
    job: Job  # what it executes
    policies: Policies  # the job's own with what schedule or submission override
    run: RunRow  # as leased
    ahead: bool = (
        False  # its lease was taken before its instant, and dated then: its job begins later than the lease says
    )

    @property
    def fence(self) -> int:
        return self.run.fence


# How the execution of an attempt ended.


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


Ended = Returned | Failed | SliceEnded | Cancelled | Abandoned | NotBegun

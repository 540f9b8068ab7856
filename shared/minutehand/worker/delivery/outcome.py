"""What became of one received message, and what is to happen with it. ``acknowledge`` carries the second out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from minutehand.domain.formats.message import Message
from minutehand.domain.quick import quick
from minutehand.domain.run import TERMINAL, RunState

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


class Acknowledgement(Enum):
    """What happens with the message."""

    DELETE = "deleted"
    SHOW = "comes back at ``at``"
    RESEND = "``order`` is sent for ``at`` in its place; comes back at ``otherwise`` if that is not accepted"
    LEAVE = "neither: its visibility is somebody else's"


@quick
@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of one delivery. Made by the constructors below."""

    action: Action
    message: Message | None  # None if it could not be read
    acknowledgement: Acknowledgement = Acknowledgement.DELETE
    at: int = 0  # UTC ms
    otherwise: int = 0  # UTC ms
    order: Message | None = None
    why: str = ""  # the reason, as a word
    state: RunState | None = None  # the run's state if this delivery set it
    start_lag: int | None = None  # ms from due to start, of a first attempt
    attempt: int = 0  # number of the attempt that ran; 0 if none did

    @property
    def gone(self) -> bool:
        """Whether the message is deleted; if not, it comes back by itself."""
        return self.acknowledgement is Acknowledgement.DELETE

    @property
    def is_over(self) -> bool:
        """Whether the run has ended, by this delivery or before it."""
        return self.state in TERMINAL or self.why == ENDED

    @classmethod
    def refused(cls, message: Message, why: str, state: RunState | None = None) -> Outcome:
        """The run does not start by this message; ``state`` is what it became by that."""
        return cls(action=Action.REFUSED, message=message, why=why, state=state)

    @classmethod
    def ended(cls, message: Message, why: str, state: RunState | None, start_lag: int | None = None) -> Outcome:
        """The run was brought to its end without an attempt."""
        return cls(action=Action.SETTLED, message=message, why=why, state=state, start_lag=start_lag)

    @classmethod
    def postponed(cls, message: Message, why: str, *, order: Message, at: int, otherwise: int) -> Outcome:
        """``order`` is sent for ``at`` in place of the message."""
        return cls(
            action=Action.POSTPONED,
            message=message,
            why=why,
            acknowledgement=Acknowledgement.RESEND,
            order=order,
            at=at,
            otherwise=otherwise,
        )

    @classmethod
    def lined_up(cls, message: Message, why: str) -> Outcome:
        """The run waits in turn: a new message is sent when others move it up."""
        return cls(action=Action.POSTPONED, message=message, why=why)

    @classmethod
    def waiting(cls, message: Message, why: str, *, at: int) -> Outcome:
        """Another worker holds the lease: the message comes back when that has ended."""
        return cls(action=Action.WAITING, message=message, why=why, acknowledgement=Acknowledgement.SHOW, at=at)

    @classmethod
    def kept(cls, message: Message | None, why: str, *, at: int) -> Outcome:
        """Nothing is known to be wrong with the message: it comes back."""
        return cls(action=Action.KEPT, message=message, why=why, acknowledgement=Acknowledgement.SHOW, at=at)

    @classmethod
    def released(cls, message: Message) -> Outcome:
        """This process stops and has shown the message to others."""
        leave = Acknowledgement.LEAVE
        return cls(action=Action.RELEASED, message=message, why="stopping", acknowledgement=leave)

    @classmethod
    def lost(cls, message: Message) -> Outcome:
        """Another worker may have the run: nothing is written and nothing deleted."""
        return cls(action=Action.LOST, message=message, why="lease_lost", acknowledgement=Acknowledgement.LEAVE)

    @classmethod
    def unreadable(cls) -> Outcome:
        """Not one of our messages; it lies in the dead-letter queue."""
        return cls(action=Action.UNREADABLE, message=None, why="unreadable")

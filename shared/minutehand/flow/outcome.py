"""What became of one message, for the caller to report and count."""

from __future__ import annotations

from dataclasses import dataclass

from minutehand.domain.formats.message import Message
from minutehand.domain.quick import quick
from minutehand.domain.run import RunState


@quick
@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of one delivery."""

    gone: bool  # whether the message is deleted; if not, it comes back by itself
    action: str  # "settled", "refused", "postponed", "waiting", "kept", "released", "lost", "unreadable"
    why: str = ""  # the reason, as a word
    state: RunState | None = None  # the run's state if this delivery set it
    message: Message | None = None  # None if it could not be read
    start_lag: int | None = None  # ms from due to start, of a first attempt
    attempt: int = 0  # number of the attempt that ran; 0 if none did

"""What the stream of the table of runs reports: a change of a run's row, or a notice."""

from __future__ import annotations

from dataclasses import dataclass

from quarterjack.domain.names import RunRef
from quarterjack.domain.notice import BreakerNotice, Notice
from quarterjack.domain.run import RunRow


@dataclass(frozen=True, kw_only=True)
class RunChange:
    """One write of one run's row. A change may be delivered more than once; changes of different runs come in any order."""

    ref: RunRef
    sequence: int  # the stream's sequence number: grows with every change of the same run
    at: int  # UTC ms of the write, in whole seconds
    old: RunRow | None  # the row before; None: the run was created
    new: RunRow | None  # the row after; None: the row was removed
    expired: bool = False  # DynamoDB removed the row after its retention


@dataclass(frozen=True, kw_only=True)
class NoticeChange:
    """A notice's record was put. It is written in the transaction that changes what the notice is about, and never changes."""

    ref: RunRef  # the record's key
    sequence: int  # the stream's sequence number
    at: int  # UTC ms of the write, in whole seconds
    notice: Notice | BreakerNotice


StreamChange = RunChange | NoticeChange

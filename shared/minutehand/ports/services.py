"""The clock, the topics, the bucket, and all ports of one installation."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from minutehand.domain.notice import Notice
from minutehand.ports.agenda import Agenda
from minutehand.ports.ledger import DeadIndex, Ledger
from minutehand.ports.records import Records
from minutehand.ports.schedules import ScheduleStore
from minutehand.ports.work_queue import DeadQueue, WorkQueue
from minutehand.state.backpressure import Limits

Clock = Callable[[], int]  # UTC ms


class Notices(Protocol):
    """SNS topics to which owners of schedules subscribe."""

    def publish(self, topic: str, notice: Notice) -> None:
        """Publish to an SNS topic by its ARN."""


class Payloads(Protocol):
    """JSON texts too large for a message or a row, by keys that follow from their content."""

    def put(self, tenant: str, text: str) -> str:
        """Store a payload and return its key. Raises InvalidInput if there is no bucket."""

    def keep(self, tenant: str, text: str) -> str:
        """Store a result or checkpoint and return its key. Raises InvalidInput if there is no bucket."""

    def get(self, key: str) -> str:
        """The text of a key. Raises NotFound."""


@dataclass(frozen=True, kw_only=True)
class Services:
    """The ports, as one process uses them."""

    schedules: ScheduleStore
    ledger: Ledger
    agenda: Agenda
    work: WorkQueue
    dead: DeadQueue
    dead_index: DeadIndex
    payloads: Payloads
    records: Records
    notices: Notices
    retention: int  # ms for which ended runs stay in the ledger; nothing older is ever claimed
    limits: Limits = field(default_factory=Limits)  # above them the ticker holds a queue back
    wait: Callable[[float], object] = threading.Event().wait  # waits so many seconds in the calling thread

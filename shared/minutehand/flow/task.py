"""A task: a message at a worker, on its way to its lease."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from minutehand.domain.formats.message import Message
from minutehand.domain.job import Job
from minutehand.domain.policies import Policies
from minutehand.domain.quick import quick
from minutehand.domain.schedule import Revision
from minutehand.errors import Unreadable
from minutehand.flow.heartbeat import Ticket
from minutehand.ports.schedules import RevisionBatch
from minutehand.ports.work_queue import RawMessage


@quick
@dataclass(frozen=True, kw_only=True)
class Task:
    """One delivery, read as far as it can be."""

    delivery: RawMessage
    ticket: Ticket
    message: Message | None  # None if it cannot be read
    problem: Unreadable | None = None
    revisions: RevisionBatch = field(default_factory=RevisionBatch)  # of the whole batch
    ahead: bool = False  # its lease may be taken HEAD_START before its instant

    @cached_property
    def revision(self) -> Revision | None:
        """The revision that its message is of, if there is one and it was read."""
        message = self.message
        return None if message is None else self.revisions.found.get((message.run.owner, message.revision))


@quick
@dataclass(frozen=True, kw_only=True)
class Admitted:
    """A message that nothing keeps from its lease."""

    task: Task
    message: Message
    job: Job
    policies: Policies  # of the job, with what the message overrides
    payload: str | None  # JSON text

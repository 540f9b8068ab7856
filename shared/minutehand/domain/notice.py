"""A notice: what an owner is told of an incident of a schedule. A small JSON document; docs/how-to/notifications.md shows it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from minutehand.domain.names import schedule_owner

SCHEMA = 1  # of the document; raised when an older reader would misunderstand
JOB = "job:"  # how a target begins that is a job; any other is the ARN of an SNS topic
LONGEST_SUBJECT = 100  # characters, all of them ASCII: what SNS takes


class NoticeKind(StrEnum):
    """What is told."""

    FAILURE = "failure"  # an incident began: a run failed for good
    NO_SUCCESS = "no_success"  # an incident began: no run succeeded for as long as the schedule's owner allows
    PAUSED = "paused"  # so many runs in a row failed for good that the schedule was paused
    RECOVERY = "recovery"  # the incident is over: a run succeeded


@dataclass(frozen=True, kw_only=True)
class Notice:
    """One notice; as a document it has these fields and ``schema``."""

    kind: NoticeKind  # what is told
    tenant: str  # whose schedule
    schedule: str  # its name
    job: str  # name of its job
    incident: str  # id of the incident, unique within the schedule: the same in all that is told of it
    began: str  # when the incident began: ISO 8601, UTC
    at: str  # when what is told happened: ISO 8601, UTC
    count: int  # runs in a row that had failed for good then
    text: str  # all of it in a sentence
    run: str | None = None  # id of the run that failed, or succeeded; None: there was none in time
    state: str | None = None  # of that run: DEAD, LOST, EXPIRED or SUCCEEDED
    reason: str | None = None  # why it is in this state
    error_type: str | None = None  # class of its last failure
    error: str | None = None  # its message, bounded

    def document(self) -> dict[str, Any]:
        """JSON-able."""
        return {"schema": SCHEMA, **asdict(self), "kind": str(self.kind)}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Notice:
        """The reverse of ``document``."""
        given = {name: value for name, value in document.items() if name != "schema"}
        return cls(**(given | {"kind": NoticeKind(given["kind"])}))

    def encode(self) -> str:
        """The document as JSON text."""
        return json.dumps(self.document(), separators=(",", ":"))

    @property
    def owner(self) -> str:
        """The schedule's ``tenant/name``."""
        return schedule_owner(self.tenant, self.schedule)

    @property
    def subject(self) -> str:
        """A line for a mail's subject."""
        words = {
            NoticeKind.FAILURE: "fails",
            NoticeKind.NO_SUCCESS: "had no success in time",
            NoticeKind.PAUSED: "is paused: it fails",
            NoticeKind.RECOVERY: "has recovered",
        }
        return f"{self.owner} {words[self.kind]}"[:LONGEST_SUBJECT]

    @property
    def token(self) -> str:
        """The same for the same notice, however often it is told: 32 characters."""
        return hashlib.sha256(f"{self.owner}#{self.incident}#{self.kind}#{self.at}".encode()).hexdigest()[:32]

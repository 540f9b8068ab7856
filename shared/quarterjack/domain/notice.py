"""A notice: a notification of an incident of a schedule, or of a circuit breaker. A small JSON document.

docs/how-to/notifications.md shows the former, docs/how-to/events.md what is made of both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Any

from quarterjack.domain.names import schedule_owner
from quarterjack.values import value

SCHEMA = 1  # of the document; raised for a change that an older reader would misunderstand
JOB = "job:"  # prefix of a target that is a job; any other target is the ARN of an SNS topic
RECORD = "~notice~"  # prefix of the key of a notice's record
LONGEST_SUBJECT = 100  # ASCII characters: the limit of SNS


class NoticeKind(StrEnum):
    FAILURE = "failure"  # an incident began: a run failed for good
    NO_SUCCESS = "no_success"  # an incident began: no run succeeded within ``expect_success_within``
    PAUSED = "paused"  # ``pause_on_failure`` runs in a row failed for good, and the schedule was paused
    RECOVERY = "recovery"  # the incident is over: a run succeeded
    OVERDUE = "overdue"  # an incident of one run began: it goes on, or waits, beyond its time
    OVERDUE_ENDED = "overdue_ended"  # that incident is over: the run has ended


# The events that leave the installation, by the notices that they are made of. A pause on failure is within an incident.
SCHEDULE_EVENTS: Mapping[NoticeKind, str] = {
    NoticeKind.FAILURE: "schedule.failing",
    NoticeKind.NO_SUCCESS: "schedule.failing",
    NoticeKind.RECOVERY: "schedule.recovered",
    NoticeKind.OVERDUE: "schedule.overdue",
    NoticeKind.OVERDUE_ENDED: "schedule.overdue_ended",
}
OF_ONE_RUN = (NoticeKind.OVERDUE, NoticeKind.OVERDUE_ENDED)  # an incident of a run has one of each at the most
ENDINGS = (NoticeKind.RECOVERY, NoticeKind.OVERDUE_ENDED)
BREAKERS = "~breakers"  # names the partition of a tenant's circuit breakers, and their record in it
OPENED, CLOSED = "breaker.opened", "breaker.closed"
NOTICE_EVENTS = frozenset((*SCHEDULE_EVENTS.values(), OPENED, CLOSED))  # that are made of notices' records


@value(kw_only=True)
class Notice:
    """One notice; as a document it has these fields and ``schema``."""

    kind: NoticeKind  # the event
    tenant: str
    schedule: str  # its name
    job: str  # name of its job
    incident: str  # id of the incident, unique within the schedule: the same in all its notices
    began: str  # when the incident began: ISO 8601, UTC
    at: str  # when the event happened: ISO 8601, UTC
    count: int  # runs in a row that had failed for good by then
    text: str  # the notice as a sentence
    run: str | None = None  # id of the run that failed, succeeded or is overdue; None: no run succeeded in time
    state: str | None = None  # of that run at the event
    reason: str | None = (
        None  # why it is in this state; without a run: the circuit breakers that kept runs from starting
    )
    error_type: str | None = None  # class of its last failure
    error: str | None = None  # its message, bounded

    def document(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self), "kind": str(self.kind)}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Notice:
        """The reverse of ``document``."""
        given = {name: value for name, value in document.items() if name != "schema"}
        return cls(**given | {"kind": NoticeKind(given["kind"])})

    def encode(self) -> str:
        return json.dumps(self.document(), separators=(",", ":"))

    @property
    def owner(self) -> str:
        return schedule_owner(self.tenant, self.schedule)

    @property
    def subject(self) -> str:
        words = {
            NoticeKind.FAILURE: "fails",
            NoticeKind.NO_SUCCESS: "had no success in time",
            NoticeKind.PAUSED: "is paused: it fails",
            NoticeKind.RECOVERY: "has recovered",
            NoticeKind.OVERDUE: "has an overdue run",
            NoticeKind.OVERDUE_ENDED: "has no overdue run any more: it ended",
        }
        return f"{self.owner} {words[self.kind]}"[:LONGEST_SUBJECT]

    @property
    def token(self) -> str:
        """The same whenever this notice is sent again: 32 characters."""
        at = "" if self.kind in OF_ONE_RUN else self.at
        return hashlib.sha256(f"{self.owner}#{self.incident}#{self.kind}#{at}".encode()).hexdigest()[:32]


@value(kw_only=True)
class BreakerNotice:
    """That a circuit breaker of a tenant has opened, or closed. It has no receiver but that of the installation's events."""

    tenant: str
    job: str  # "*": all jobs of the tenant together
    opened_at: str  # ISO 8601, UTC
    closed_at: str | None = None  # likewise; None: it has opened
    actor: str | None = None  # who closed it by hand

    @property
    def type(self) -> str:
        """Of its event."""
        return OPENED if self.closed_at is None else CLOSED

    @property
    def owner(self) -> str:
        return schedule_owner(self.tenant, BREAKERS)

    @property
    def token(self) -> str:
        """One for each opening, and one for each closing: 32 characters."""
        return hashlib.sha256(f"{self.owner}#{self.job}#{self.opened_at}#{self.type}".encode()).hexdigest()[:32]


def notice_key(token: str) -> str:
    """The key of a notice's record."""
    return f"{RECORD}{token}"


def schedule_events(events: str | None, types: str | None) -> frozenset[str]:
    """The types of events about schedules that settings ask for; what is wrong in them is told where events are sent."""
    known = frozenset(SCHEDULE_EVENTS.values())
    if events is None or types is None:
        return frozenset() if events is None else known
    return known.intersection(word.strip() for word in types.split(","))

"""An event that leaves the installation: a run ended, a schedule began or ceased to fail, a circuit breaker opened or closed.

A small JSON document. docs/how-to/events.md shows it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from quarterjack.domain.history.transition_line import SEQUENCE_DIGITS, TransitionKind, TransitionLine, iso
from quarterjack.domain.names import PIPELINE
from quarterjack.domain.notice import NOTICE_EVENTS, SCHEDULE_EVENTS, BreakerNotice, Notice
from quarterjack.domain.payload import json_text
from quarterjack.domain.run import RunState
from quarterjack.errors import InvalidInput
from quarterjack.values import replace

# Ends that say something about the job. A run that is superseded, skipped or shadowed never started, by a schedule's own options.
RUN_EVENTS: Mapping[TransitionKind, str] = {
    kind: f"run.{kind}"
    for kind in (
        TransitionKind.SUCCEEDED,
        TransitionKind.DEAD,
        TransitionKind.LOST,
        TransitionKind.EXPIRED,
        TransitionKind.CANCELLED,
    )
}
# Of pipelines' runs, beside those: who follows runs gets all, and who follows pipelines need not tell their runs from those of tasks.
PIPELINE_EVENTS: Mapping[TransitionKind, str] = {
    kind: f"pipeline.{kind}" for kind in (TransitionKind.SUCCEEDED, TransitionKind.DEAD)
}
EVENT_TYPES = frozenset((*RUN_EVENTS.values(), *PIPELINE_EVENTS.values(), *NOTICE_EVENTS))
SOURCE = "quarterjack"
_PLAIN = (
    "job",
    "revision",
    "fence",
    "attempt",
    "worker",
    "reason",
    "error_type",
    "error_code",
    "backfill",
    "replay_of",
)
_TIMES = ("due", "started_at", "ended_at")
_OF_NOTICE = ("tenant", "schedule", "job", "incident", "began", "count", "run", "state", "reason", "error_type")

TARGETS = ("eventbridge", "sns", "webhook")
_TOPIC = re.compile(r"arn:aws[\w-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?")
_BUS = re.compile(r"(arn:aws[\w-]*:events:[a-z0-9-]+:\d{12}:event-bus/)?[/.\-_A-Za-z0-9]{1,256}")
_REMEDY = "use eventbridge:BUS, sns:TOPIC_ARN or webhook:https://HOST/PATH"
_PLACES = ("secret", "parameter", "env")


@dataclass(frozen=True, kw_only=True)
class OutgoingEvent:
    """One event. ``id`` is the same whenever it is sent again."""

    id: str
    type: str  # one of EVENT_TYPES
    at: str  # ISO 8601, UTC
    about: str  # id of the run, or as tenant/name the schedule or the breakers
    tenant: str
    job: str
    schedule: str | None  # its name; None: a one-off, or it is about no schedule
    data: Mapping[str, Any]  # what is None in it is not sent

    def encode(self) -> str:
        """The document: that of Standard Webhooks, with the id in it for receivers that see no headers."""
        data = {name: value for name, value in self.data.items() if value is not None}
        return json_text({"id": self.id, "type": self.type, "timestamp": self.at, "data": data})


def event_of(line: TransitionLine) -> OutgoingEvent | None:
    """The event of a transition; None for one that is not the end of a run."""
    kind = RUN_EVENTS.get(line.kind)
    if kind is None:
        return None
    data: dict[str, Any] = {
        "run": str(line.ref),
        "tenant": line.tenant,
        "schedule": line.schedule,
        "state": None if line.after is None else str(line.after),
        **{name: getattr(line, name) for name in _PLAIN},
        **{name: iso(getattr(line, name)) for name in _TIMES},
        "sequence": f"{line.sequence:0{SEQUENCE_DIGITS}d}",
    }
    return OutgoingEvent(
        id=f"evt_{hashlib.sha256(f'{line.ref}#{line.sequence}'.encode()).hexdigest()[:32]}",
        type=kind,
        at=str(iso(line.at)),
        about=str(line.ref),
        tenant=line.tenant,
        job=line.job,
        schedule=line.schedule,
        data=data,
    )


def pipeline_event_of(line: TransitionLine) -> OutgoingEvent | None:
    """The event beside that of ``event_of`` for the end of a pipeline's run; None: the run is no pipeline's, or ended otherwise."""
    kind, event = PIPELINE_EVENTS.get(line.kind), event_of(line)
    if kind is None or event is None or not line.job.startswith(PIPELINE):
        return None
    digest = hashlib.sha256(f"{kind}#{event.id}".encode()).hexdigest()[:32]
    return replace(
        event, id=f"evt_{digest}", type=kind, data={**event.data, "pipeline": line.job.removeprefix(PIPELINE)}
    )


def event_of_notice(notice: Notice | BreakerNotice) -> OutgoingEvent | None:
    """The event of a notice, without its sentence and the run's error message; None for a notice within an incident."""
    if isinstance(notice, BreakerNotice):
        return _event_of_breaker(notice)
    kind = SCHEDULE_EVENTS.get(notice.kind)
    if kind is None:
        return None
    return OutgoingEvent(
        id=f"evt_{notice.token}",
        type=kind,
        at=notice.at,
        about=notice.owner,
        tenant=notice.tenant,
        job=notice.job,
        schedule=notice.schedule,
        data={"kind": str(notice.kind), **{name: getattr(notice, name) for name in _OF_NOTICE}},
    )


def _event_of_breaker(notice: BreakerNotice) -> OutgoingEvent:
    return OutgoingEvent(
        id=f"evt_{notice.token}",
        type=notice.type,
        at=notice.closed_at or notice.opened_at,
        about=notice.owner,
        tenant=notice.tenant,
        job=notice.job,
        schedule=None,
        data=asdict(notice),
    )


def states_of(types: frozenset[str]) -> list[RunState]:
    """The states of runs that these types of events are about."""
    return [
        RunState(kind.upper())
        for kind, word in RUN_EVENTS.items()
        if word in types or PIPELINE_EVENTS.get(kind, word) in types
    ]


@dataclass(frozen=True, kw_only=True)
class EventTarget:
    """Where events go."""

    kind: str  # one of TARGETS
    address: str  # name or ARN of a bus, ARN of a topic, or URL
    types: frozenset[str]  # of EVENT_TYPES
    secret: tuple[str, str] | None = None  # place and name of a webhook's signing secret


def parse_target(events: object, types: object = None, secret: object = None) -> EventTarget:
    """A target from settings: ``events`` as ``eventbridge:BUS``, ``types`` as ``run.dead,run.lost``, ``secret`` as ``secret:NAME``.

    Raises InvalidInput, which names the field.
    """
    kind, _, address = events.partition(":") if isinstance(events, str) else ("", "", "")
    if kind not in TARGETS:
        raise InvalidInput("events", events, "is no target of events", _REMEDY)
    if kind == "sns" and not _TOPIC.fullmatch(address):
        raise InvalidInput("events", events, "has no ARN of an SNS topic", _REMEDY)
    if kind == "eventbridge" and not _BUS.fullmatch(address):
        raise InvalidInput("events", events, "has no name or ARN of an event bus", _REMEDY)
    if kind == "webhook" and not re.match(r"https?://[^/]", address):
        raise InvalidInput("events", events, "has no URL", _REMEDY)
    if kind == "webhook" and secret is None:
        raise InvalidInput(
            "event_secret", None, "is missing for a webhook", "name where it is: secret:NAME, or parameter:NAME"
        )
    if kind != "webhook" and secret is not None:
        raise InvalidInput("event_secret", secret, "is of no use without a webhook", "leave it out")
    return EventTarget(kind=kind, address=address, types=_types(types), secret=_secret(secret))


def _types(given: object) -> frozenset[str]:
    known = sorted(EVENT_TYPES)
    if given is None:
        return frozenset(known)
    words = [word.strip() for word in given.split(",")] if isinstance(given, str) else []
    if not words or not all(word in known for word in words):
        raise InvalidInput(
            "event_types", given, "names no type of event", f"use some of {','.join(known)}, or leave it out"
        )
    return frozenset(words)


def _secret(given: object) -> tuple[str, str] | None:
    if given is None:
        return None
    place, _, name = given.partition(":") if isinstance(given, str) else ("", "", "")
    if place not in _PLACES or not name:
        raise InvalidInput("event_secret", given, "names no place", "use secret:NAME, parameter:NAME or env:VARIABLE")
    return place, name

"""An event that leaves the installation: a run ended. A small JSON document; docs/how-to/events.md shows it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minutehand.domain.history.transition_line import SEQUENCE_DIGITS, TransitionKind, TransitionLine, iso
from minutehand.domain.payload import json_text
from minutehand.domain.run import RunState
from minutehand.errors import InvalidInput

# Ends that say something about the job. A run that is superseded, skipped or shadowed never started, by a schedule's own options.
EVENT_TYPES: Mapping[TransitionKind, str] = {
    kind: f"run.{kind}"
    for kind in (
        TransitionKind.SUCCEEDED,
        TransitionKind.DEAD,
        TransitionKind.LOST,
        TransitionKind.EXPIRED,
        TransitionKind.CANCELLED,
    )
}
SOURCE = "minutehand"
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

TARGETS = ("eventbridge", "sns", "webhook")
_TOPIC = re.compile(r"arn:aws[\w-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?")
_BUS = re.compile(r"(arn:aws[\w-]*:events:[a-z0-9-]+:\d{12}:event-bus/)?[/.\-_A-Za-z0-9]{1,256}")
_REMEDY = "use eventbridge:BUS, sns:TOPIC_ARN or webhook:https://HOST/PATH"
_PLACES = ("secret", "parameter", "env")


@dataclass(frozen=True, kw_only=True)
class RunEvent:
    """One event. ``id`` is the same whenever it is sent again."""

    id: str
    type: str  # one of EVENT_TYPES
    line: TransitionLine  # the transition that it reports

    @property
    def tenant(self) -> str:
        return self.line.tenant

    @property
    def at(self) -> int:
        """UTC ms of the transition, in whole seconds."""
        return self.line.at

    def encode(self) -> str:
        """The document: that of Standard Webhooks, with the id in it for receivers that see no headers."""
        line, state = self.line, self.line.after
        fields: dict[str, Any] = {
            "run": str(line.ref),
            "tenant": line.tenant,
            "schedule": line.schedule,
            "state": None if state is None else str(state),
            **{name: getattr(line, name) for name in _PLAIN},
            **{name: iso(getattr(line, name)) for name in _TIMES},
            "sequence": f"{line.sequence:0{SEQUENCE_DIGITS}d}",
        }
        data = {name: value for name, value in fields.items() if value is not None}
        return json_text({"id": self.id, "type": self.type, "timestamp": iso(self.at), "data": data})


def event_of(line: TransitionLine) -> RunEvent | None:
    """The event of a transition; None for one that is not the end of a run."""
    kind = EVENT_TYPES.get(line.kind)
    if kind is None:
        return None
    digest = hashlib.sha256(f"{line.ref}#{line.sequence}".encode()).hexdigest()[:32]
    return RunEvent(id=f"evt_{digest}", type=kind, line=line)


def states_of(types: frozenset[str]) -> list[RunState]:
    """The states that these types of events are about."""
    return [RunState(kind.upper()) for kind, word in EVENT_TYPES.items() if word in types]


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
    known = sorted(EVENT_TYPES.values())
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

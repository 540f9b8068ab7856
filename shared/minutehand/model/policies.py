"""What a user asks of an execution: how it is delivered, started and retried."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Self, TypeVar

from minutehand.errors import InvalidInput

_Word = TypeVar("_Word", bound=StrEnum)


class Delivery(StrEnum):
    """What a crash in the middle of a run leads to."""

    AT_LEAST_ONCE = "at_least_once"  # the run starts again after its lease; a job may see it twice
    AT_MOST_ONCE = "at_most_once"  # the run is LOST and reported; no job ever sees it twice


class Start(StrEnum):
    """How close to its instant a run starts."""

    PROMPT = "prompt"  # 0-1 s late: the queue's delay is rounded up to the whole second
    EXACT = "exact"  # milliseconds late: the message comes 1-2 s early and the worker holds it


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How often and when a failed attempt is followed by another."""

    max_attempts: int = 3  # attempts in all, the first included
    base: float = 10.0  # seconds before the second attempt; doubled for each further one
    cap: float = 3600.0  # seconds at the most between two attempts

    def __post_init__(self) -> None:
        if type(self.max_attempts) is not int or not 1 <= self.max_attempts <= 1000:
            raise InvalidInput(
                "max_attempts", self.max_attempts, "is out of range", "use a whole number from 1 to 1000"
            )
        _check_seconds("base", self.base)
        _check_seconds("cap", self.cap)


@dataclass(frozen=True, kw_only=True)
class Policies:
    """A job's policies, complete; a schedule or a submission may override single ones."""

    delivery: Delivery = Delivery.AT_LEAST_ONCE
    start: Start = Start.PROMPT
    retry: Retry = field(default_factory=Retry)

    @property
    def max_attempts(self) -> int:
        """Attempts in all: one where a second must never happen."""
        return 1 if self.delivery is Delivery.AT_MOST_ONCE else self.retry.max_attempts

    def overridden(self, overrides: Overrides) -> Self:
        """These policies with what a schedule or submission says instead."""
        return replace(self, **{name: value for name, value in vars(overrides).items() if value is not None})


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """The policies that a schedule or a submission sets for itself; None leaves the job's own."""

    delivery: Delivery | None = None
    start: Start | None = None
    retry: Retry | None = None

    def as_dict(self) -> dict[str, Any]:
        """JSON-able, without what is not set."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        return {name: vars(value) if isinstance(value, Retry) else str(value) for name, value in given.items()}

    def encode(self) -> str | None:
        """JSON text, or None if nothing is set."""
        given = self.as_dict()
        return json.dumps(given, separators=(",", ":")) if given else None

    @classmethod
    def parse(cls, text: str | None) -> Overrides:
        """The reverse of ``encode``."""
        return cls.from_dict(json.loads(text)) if text else cls()

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Overrides:
        """The reverse of ``as_dict``; keys of a later release are passed over."""
        retry = given.get("retry")
        known = {f.name for f in fields(Retry)}
        return cls(
            delivery=Delivery(given["delivery"]) if "delivery" in given else None,
            start=Start(given["start"]) if "start" in given else None,
            retry=Retry(**{k: v for k, v in retry.items() if k in known}) if retry else None,
        )


def overrides(*, delivery: str | None = None, start: str | None = None, retry: Retry | None = None) -> Overrides:
    """Overrides from what a user wrote; a word that is no policy is refused with those that are."""
    if retry is not None and not isinstance(retry, Retry):
        raise InvalidInput("retry", retry, "is not a Retry", "pass Retry(max_attempts=..., base=..., cap=...)")
    return Overrides(
        delivery=None if delivery is None else _word(Delivery, "delivery", delivery),
        start=None if start is None else _word(Start, "start", start),
        retry=retry,
    )


def _word(kind: type[_Word], field_name: str, value: str) -> _Word:
    try:
        return kind(value)
    except ValueError:
        raise InvalidInput(field_name, value, "is not known", f"use one of {', '.join(kind)}") from None


def _check_seconds(field_name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 86_400 * 14:
        raise InvalidInput(field_name, value, "is not a number of seconds", "use 0 to 1,209,600 (14 days)")

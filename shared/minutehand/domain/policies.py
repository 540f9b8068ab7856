"""What a user asks of an execution: how it is delivered, started and retried."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Self, TypeVar

from minutehand.errors import InvalidInput

_Word = TypeVar("_Word", bound=StrEnum)


class Delivery(StrEnum):
    """What a crash in the middle of a run leads to."""

    AT_LEAST_ONCE = "at_least_once"  # the run starts again after its lease; a job may see it twice
    EXACTLY_ONCE = "exactly_once"  # the run starts again after its lease; steps that were recorded are not repeated
    AT_MOST_ONCE = "at_most_once"  # the run is LOST and reported; no job ever sees it twice


class Start(StrEnum):
    """How close to its instant a run starts."""

    PROMPT = "prompt"  # 0-1 s late: the queue's delay is rounded up to the whole second
    EXACT = "exact"  # milliseconds late: the message comes 1-2 s early and the worker holds it


class Backoff(StrEnum):
    """How the wait between attempts grows."""

    EXPONENTIAL = "exponential"  # base, 2 base, 4 base …
    LINEAR = "linear"  # base, 2 base, 3 base …
    FIXED = "fixed"  # base, base, base …


class Isolation(StrEnum):
    """What a job runs in."""

    THREAD = "thread"  # cheap; a job that does not end cannot be ended, only abandoned
    PROCESS = "process"  # a process of its own on worker processes, killed at its timeout, cancellation or lost lease


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How often and when a failed attempt is followed by another, and which failures are worth it.

    ``retry_on`` and ``never_on`` take exception classes (or their names); a subclass counts as its parents do. With ``retry_on``
    every other failure is permanent; ``never_on`` goes before it.
    """

    max_attempts: int = 3  # attempts in all, the first included
    base: float = 10.0  # seconds before the second attempt
    cap: float = 3600.0  # seconds at the most between two attempts
    backoff: Backoff = Backoff.EXPONENTIAL  # how the wait grows
    jitter: float = 0.5  # share of the wait (0 to 1) of which a random part is taken off
    within: float | None = None  # seconds after the due time: no attempt starts later; None: no such limit
    retry_on: tuple[str | type[BaseException], ...] = ()  # exceptions worth another attempt; empty: all
    never_on: tuple[str | type[BaseException], ...] = ()  # exceptions that are permanent
    by_status: bool = (
        False  # exceptions with an HTTP status: 408, 425, 429 and 5xx are retried, other 4xx are permanent
    )

    def __post_init__(self) -> None:
        if type(self.max_attempts) is not int or not 1 <= self.max_attempts <= 1000:
            raise InvalidInput(
                "max_attempts", self.max_attempts, "is out of range", "use a whole number from 1 to 1000"
            )
        check_seconds("base", self.base)
        check_seconds("cap", self.cap)
        check_seconds("within", self.within)
        if isinstance(self.jitter, bool) or not isinstance(self.jitter, (int, float)) or not 0 <= self.jitter <= 1:
            raise InvalidInput("jitter", self.jitter, "is not a share", "use a number from 0 to 1")
        object.__setattr__(self, "backoff", word(Backoff, "backoff", self.backoff))
        for name in ("retry_on", "never_on"):
            object.__setattr__(self, name, _class_names(name, getattr(self, name)))

    def as_dict(self) -> dict[str, Any]:
        """JSON-able, without what has its default."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}


@dataclass(frozen=True, kw_only=True)
class Policies:
    """A job's policies, complete; a schedule or a submission may override single ones."""

    delivery: Delivery = Delivery.AT_LEAST_ONCE
    start: Start = Start.PROMPT
    retry: Retry = field(default_factory=Retry)
    timeout: float | None = None  # seconds of one attempt; None: as long as its lease is renewed
    deadline: float | None = None  # seconds after the due time: no attempt starts later, the run is EXPIRED
    cancel_grace: float = 30.0  # seconds that a job has to end after its cancellation was asked for
    isolation: Isolation = Isolation.THREAD  # what the job runs in

    @property
    def max_attempts(self) -> int:
        """Attempts in all: one where a second must never happen."""
        return 1 if self.delivery is Delivery.AT_MOST_ONCE else self.retry.max_attempts

    def overridden(self, overrides: Overrides) -> Self:
        """These policies with what a schedule or submission says instead."""
        given = {name: value for name, value in vars(overrides).items() if value is not None}
        return replace(self, **given) if given else self


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """The policies that a schedule or a submission sets for itself; None leaves the job's own."""

    delivery: Delivery | None = None
    start: Start | None = None
    retry: Retry | None = None
    timeout: float | None = None
    deadline: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """JSON-able, without what is not set."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        return {name: value.as_dict() if isinstance(value, Retry) else value for name, value in given.items()}

    def encode(self) -> str | None:
        """JSON text, or None if nothing is set."""
        given = self.as_dict()
        return json.dumps(given, separators=(",", ":")) if given else None

    @classmethod
    def parse(cls, text: str | None) -> Overrides:
        """The reverse of ``encode``."""
        return _parsed(text) if text else _NOTHING

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Overrides:
        """The reverse of ``as_dict``; keys of a later release are passed over."""
        if given == {}:
            return _NOTHING
        retry = given.get("retry")
        known = {f.name for f in fields(Retry)} if retry else set()
        return cls(
            delivery=Delivery(given["delivery"]) if "delivery" in given else None,
            start=Start(given["start"]) if "start" in given else None,
            retry=None if retry is None else Retry(**{k: v for k, v in retry.items() if k in known}),
            timeout=given.get("timeout"),
            deadline=given.get("deadline"),
        )


_NOTHING = Overrides()


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Overrides:
    """The same text is read once: many schedules say the same."""
    return Overrides.from_dict(json.loads(text))


def overrides(
    *,
    delivery: str | None = None,
    start: str | None = None,
    retry: Retry | None = None,
    timeout: float | None = None,
    deadline: float | None = None,
) -> Overrides:
    """Overrides from what a user wrote; a word that is no policy is refused with those that are."""
    if retry is not None and not isinstance(retry, Retry):
        raise InvalidInput("retry", retry, "is not a Retry", "pass Retry(max_attempts=..., base=..., cap=...)")
    return Overrides(
        delivery=None if delivery is None else word(Delivery, "delivery", delivery),
        start=None if start is None else word(Start, "start", start),
        retry=retry,
        timeout=check_seconds("timeout", timeout),
        deadline=check_seconds("deadline", deadline),
    )


def isolation(given: str) -> Isolation:
    """An isolation from what a user wrote."""
    return word(Isolation, "isolation", given)


def word(kind: type[_Word], field_name: str, value: str) -> _Word:
    """One of the words of a kind, from what a user wrote."""
    if isinstance(value, str) and value in kind.__members__.values():
        return kind(value)
    raise InvalidInput(field_name, value, "is not known", f"use one of {', '.join(kind)}")


def check_seconds(field_name: str, value: float | None) -> float | None:
    """A length of time in seconds, if it is given."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 86_400 * 14:
        raise InvalidInput(field_name, value, "is not a number of seconds", "use 0 to 1,209,600 (14 days)")
    return value


def _class_names(field_name: str, given: object) -> tuple[str, ...]:
    """Exception classes by name: a policy travels as JSON."""
    listed = given if isinstance(given, (tuple, list, set, frozenset)) else (given,)
    names = [one.__name__ if isinstance(one, type) and issubclass(one, BaseException) else one for one in listed]
    if isinstance(given, (set, frozenset)):  # in one order, so that the same policy is the same text
        names.sort(key=str)
    if not all(isinstance(name, str) and name for name in names):
        raise InvalidInput(
            field_name, given, "is not made of exceptions", "use classes, e.g. retry_on=(TimeoutError, OSError)"
        )
    return tuple(str(name) for name in names)

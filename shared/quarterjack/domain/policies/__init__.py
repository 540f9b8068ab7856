"""The policies of an execution: delivery, start, priority, retry, time limits and isolation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, Self

from quarterjack.domain.names import check_limit, check_seconds, check_whole, word
from quarterjack.domain.policies.flow import Flow, parse_flow
from quarterjack.domain.redaction import USUAL, Redact
from quarterjack.errors import InvalidInput
from quarterjack.values import replace, value


class Delivery(StrEnum):
    """What happens to a run whose worker crashes."""

    AT_LEAST_ONCE = "at_least_once"  # the run starts again after its lease; a job may see it twice
    EXACTLY_ONCE = "exactly_once"  # the run starts again after its lease; steps that were recorded are not repeated
    AT_MOST_ONCE = "at_most_once"  # the run is LOST and its owner notified; it never starts twice


DeliveryWord = Delivery | Literal["at_least_once", "exactly_once", "at_most_once"]


class Start(StrEnum):
    """How long after its due time a run starts."""

    PROMPT = "prompt"  # 0-1 s late: the queue's delay is rounded up to the whole second
    EXACT = "exact"  # milliseconds late: the worker receives the message 1-2 s early and waits


StartWord = Start | Literal["prompt", "exact"]


class OnDuplicate(StrEnum):
    """What becomes of a submission whose unique key a run has."""

    RETURN = "return"  # nothing: that run is returned
    REFUSE = "refuse"  # Conflict, which names that run
    REPLACE = "replace"  # that run gets the new payload, time and policies if it has not begun
    AFTER = "after"  # one more run starts when that one has ended; a further submission gives its payload to this run


OnDuplicateWord = OnDuplicate | Literal["return", "refuse", "replace", "after"]


class Priority(StrEnum):
    """How urgent a run is, in a queue that has lanes; the most urgent first."""

    HIGH = "high"  # starts before what else waits
    NORMAL = "normal"
    LOW = "low"  # gives way, and keeps a share of the workers

    @property
    def rank(self) -> int:
        """0 for the most urgent."""
        return _RANKS[self]


_RANKS = {priority: rank for rank, priority in enumerate(Priority)}
PriorityWord = Priority | Literal["high", "normal", "low"]


class Backoff(StrEnum):
    """The growth of the wait between attempts."""

    EXPONENTIAL = "exponential"  # base, 2 base, 4 base …
    LINEAR = "linear"  # base, 2 base, 3 base …
    FIXED = "fixed"  # base, base, base …


BackoffWord = Backoff | Literal["exponential", "linear", "fixed"]


class Isolation(StrEnum):
    """Where a job runs."""

    THREAD = "thread"  # cheap; a job that does not end cannot be stopped, its thread is left running
    # In a separate process, on worker processes only; killed at timeout, cancellation or a lost lease.
    PROCESS = "process"


IsolationWord = Isolation | Literal["thread", "process"]

# For ``never_on``: what the job's code raises because it is wrong. It is not permanent by default, because a flaky upstream raises it too:
# a JSONDecodeError for half a response is a ValueError, a field that a reply lacks is a KeyError.
PROGRAMMING_ERRORS: tuple[type[Exception], ...] = (
    ValueError,
    TypeError,
    LookupError,  # KeyError, IndexError
    AttributeError,
    NameError,
    ArithmeticError,
    AssertionError,
    NotImplementedError,
    ImportError,
)


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How many attempts a run has, the wait between them, and the failures that are retried.

    Permanent by default are a payload that Quarterjack refuses, and an exception that carries an HTTP status 4xx other than 408, 425
    and 429. ``retry_on``, ``never_on`` and ``always_on`` take exception classes or their names; a subclass matches as its parents do.
    With ``retry_on`` every other failure is permanent. ``always_on`` goes before ``never_on``, and that before ``retry_on``.
    """

    max_attempts: int = 3  # the first included
    base: float = 10.0  # seconds before the second attempt
    cap: float = 3600.0  # most seconds between two attempts
    backoff: BackoffWord = Backoff.EXPONENTIAL  # how the wait grows
    jitter: float = 0.5  # largest share of the wait (0 to 1) that is randomly taken off
    within: float | None = None  # seconds after the due time: no attempt starts later; None: no limit
    retry_on: tuple[str | type[BaseException], ...] = ()  # exceptions that are retried; empty: all
    never_on: tuple[str | type[BaseException], ...] = ()  # exceptions that are permanent
    always_on: tuple[
        str | type[BaseException], ...
    ] = ()  # exceptions that are retried whatever else makes them permanent
    by_status: bool = True  # exceptions with an HTTP status 4xx are permanent, except 408, 425 and 429

    def __post_init__(self) -> None:
        check_whole("max_attempts", self.max_attempts, 1, 1_000)
        for name in ("base", "cap", "within"):
            check_seconds(name, getattr(self, name))
        if isinstance(self.jitter, bool) or not isinstance(self.jitter, (int, float)) or not 0 <= self.jitter <= 1:
            raise InvalidInput("jitter", self.jitter, "is not a share", "use a number from 0 to 1")
        object.__setattr__(self, "backoff", word(Backoff, "backoff", self.backoff))
        for name in ("retry_on", "never_on", "always_on"):
            object.__setattr__(self, name, _class_names(name, getattr(self, name)))
        if not isinstance(self.by_status, bool):
            raise InvalidInput("by_status", self.by_status, "is neither True nor False", "use one of them")
        both = sorted({str(name) for name in self.always_on} & {str(name) for name in self.never_on})
        if both:
            raise InvalidInput("always_on", both[0], "is in never_on as well", "name it in one of them")

    def as_dict(self) -> dict[str, Any]:
        """The fields that differ from their defaults, as JSON values."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}


@value(kw_only=True)
class Policies:
    """A job's policies; a schedule or a submission may override single ones."""

    delivery: Delivery = Delivery.AT_LEAST_ONCE
    start: Start = Start.PROMPT
    priority: Priority = Priority.NORMAL
    retry: Retry = field(default_factory=Retry)
    timeout: float | None = None  # seconds of one attempt; None: no limit
    deadline: float | None = None  # seconds after the due time: no attempt starts later, the run is EXPIRED
    flow: Flow | None = None  # limits by key: how many runs at a time, or starts a minute; None: none
    cancel_grace: float = 30.0  # seconds between the request of a cancellation and its enforcement
    isolation: Isolation = Isolation.THREAD
    redact: Redact = USUAL  # what errors must not repeat of the payload

    @property
    def max_attempts(self) -> int:
        """The limit of attempts: one under at-most-once delivery."""
        return 1 if self.delivery is Delivery.AT_MOST_ONCE else self.retry.max_attempts

    def overridden(self, overrides: Overrides) -> Self:
        """These policies with the overrides of a schedule or submission."""
        if overrides is NO_OVERRIDES:  # most have none
            return self
        given = {name: value for name, value in vars(overrides).items() if value is not None}
        return replace(self, **given) if given else self


def parse_policies(given: Mapping[str, Any]) -> Policies:
    """Policies from those that differ from the defaults, as JSON values; ignores what a later release has added."""
    found = Policies().overridden(Overrides.from_dict(dict(given)))
    isolation = Isolation(given.get("isolation", found.isolation))
    return replace(found, cancel_grace=given.get("cancel_grace", found.cancel_grace), isolation=isolation)


@value(kw_only=True)
class Overrides:
    """The policies that a schedule or a submission sets; None: the job's."""

    delivery: Delivery | None = None
    start: Start | None = None
    priority: Priority | None = None
    retry: Retry | None = None
    timeout: float | None = None
    deadline: float | None = None
    flow: Flow | None = None

    def as_dict(self) -> dict[str, Any]:
        """The policies that are set, as JSON values."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        return {name: value.as_dict() if isinstance(value, (Retry, Flow)) else value for name, value in given.items()}

    def encode(self) -> str | None:
        """JSON text, or None if nothing is set."""
        given = self.as_dict()
        return json.dumps(given, separators=(",", ":")) if given else None

    @staticmethod
    @lru_cache(maxsize=1024)  # many schedules have the same overrides
    def parse(text: str | None) -> Overrides:
        """The reverse of ``encode``."""
        return Overrides.from_dict(json.loads(text)) if text else NO_OVERRIDES

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Overrides:
        """The reverse of ``as_dict``; ignores keys of a later release."""
        retry = given.get("retry")
        known = {f.name for f in fields(Retry)} if retry else set()
        return cls(
            delivery=Delivery(given["delivery"]) if "delivery" in given else None,
            start=Start(given["start"]) if "start" in given else None,
            priority=Priority(given["priority"]) if "priority" in given else None,
            retry=None if retry is None else Retry(**{k: v for k, v in retry.items() if k in known}),
            timeout=given.get("timeout"),
            deadline=given.get("deadline"),
            flow=parse_flow(given["flow"]) if given.get("flow") else None,
        )


NO_OVERRIDES = Overrides()


def overrides(
    *,
    delivery: DeliveryWord | None = None,
    start: StartWord | None = None,
    priority: PriorityWord | None = None,
    retry: Retry | None = None,
    timeout: float | None = None,
    deadline: float | None = None,
    flow: Flow | None = None,
) -> Overrides:
    """Overrides from a user's arguments. Raises InvalidInput, which lists the known values."""
    if flow is not None and not isinstance(flow, Flow):
        raise InvalidInput("flow", flow, "is not a Flow", 'pass Flow(key="customer", at_a_time=2)')
    if retry is not None and not isinstance(retry, Retry):
        raise InvalidInput("retry", retry, "is not a Retry", "pass Retry(max_attempts=..., base=..., cap=...)")
    given: object = start
    if isinstance(given, datetime):
        remedy = "give the time to the rule: Rule(expression=..., timezone=..., start=...) in place of the expression"
        raise InvalidInput("start", given, "is a time, and this is how a run starts: prompt or exact", remedy)
    return Overrides(
        delivery=None if delivery is None else word(Delivery, "delivery", delivery),
        start=None if start is None else word(Start, "start", start),
        priority=None if priority is None else word(Priority, "priority", priority),
        retry=retry,
        timeout=check_limit("timeout", timeout),
        deadline=check_limit("deadline", deadline),
        flow=flow,
    )


def _class_names(field_name: str, given: object) -> tuple[str, ...]:
    """The names of exception classes: policies are stored as JSON."""
    listed = given if isinstance(given, (tuple, list, set, frozenset)) else (given,)
    names = [one.__name__ if isinstance(one, type) and issubclass(one, BaseException) else one for one in listed]
    if isinstance(given, (set, frozenset)):  # so that equal policies are equal texts
        names.sort(key=str)
    if not all(isinstance(name, str) and name for name in names):
        remedy = "use classes, e.g. retry_on=(TimeoutError, OSError)"
        raise InvalidInput(field_name, given, "is not made of exceptions", remedy)
    return tuple(str(name) for name in names)


def split_words(words: Mapping[str, Any]) -> tuple[Overrides, dict[str, Any]]:
    """The overrides of the job's policies, and the options. Raises InvalidInput."""
    options = dict(words)
    return overrides(**{field.name: options.pop(field.name, None) for field in fields(Overrides)}), options

"""The policy ``flow``: how many runs with one key may run at a time, or start a minute, and what becomes of the others."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Literal

from quarterjack.domain.names import check_flag, check_name, check_whole, is_text, word
from quarterjack.errors import InvalidInput

MOST_AT_A_TIME = 100  # runs with one key: the record of a key names each of them
MOST_PER_MINUTE = 6_000
_LONGEST_PATH = 200  # characters
_LONGEST_LABEL = 80  # characters of a key in texts


class FlowOrder(StrEnum):
    """Which of the runs that wait for a permit gets the next one."""

    FIFO = "fifo"  # the one that has been due for longest
    PRIORITY = "priority"  # the most urgent one; among equals the one that has been due for longest


FlowOrderWord = FlowOrder | Literal["fifo", "priority"]


class OnFull(StrEnum):
    """What becomes of a run that finds no permit of its key."""

    WAIT = "wait"  # it waits for one
    SKIP_NEW = "skip_new"  # it is SKIPPED
    KEEP_NEWEST = "keep_newest"  # it waits, and the runs that wait already are SKIPPED
    CANCEL_OLD = "cancel_old"  # the same, and the cancellation of the runs that go is requested


OnFullWord = OnFull | Literal["wait", "skip_new", "keep_newest", "cancel_old"]


@dataclass(frozen=True, kw_only=True)
class Flow:
    """How many runs with one key may run at a time, or start a minute. The others wait, or what ``on_full`` says.

    >>> Flow(key="customer", at_a_time=2)
    Flow(key='customer', at_a_time=2)
    """

    name: str | None = None  # runs of all jobs with this name share their permits; None: the runs of one job
    key: str | None = None  # path into the payload: "customer", "order.customer"; None: all runs have the same key
    at_a_time: int | None = None  # most runs with a lease, 1 to 100; None: any number
    per_minute: int | None = None  # most starts a minute, evenly spaced, 1 to 6,000; None: any number
    burst: int = 1  # starts that may come together after a time without, 1 to ``per_minute``
    order: FlowOrderWord = FlowOrder.FIFO  # of the runs that wait
    on_full: OnFullWord = OnFull.WAIT  # what becomes of a run that finds no permit
    strict: bool = False  # whether runs wait while permits cannot be read or written; else they start without

    def __post_init__(self) -> None:
        if self.name is not None:
            check_name(self.name, "name")
        if self.key is not None and (not is_text(self.key, _LONGEST_PATH) or not all(self.key.split("."))):
            remedy = 'write the names of nested fields with dots between them, e.g. key="order.customer"'
            raise InvalidInput("key", self.key, "is no path into a payload", remedy)
        if self.at_a_time is None and self.per_minute is None:
            raise InvalidInput("at_a_time", None, "limits nothing without per_minute", "give one of the two, or both")
        if self.at_a_time is not None:
            check_whole("at_a_time", self.at_a_time, 1, MOST_AT_A_TIME)
        if self.per_minute is not None:
            check_whole("per_minute", self.per_minute, 1, MOST_PER_MINUTE)
        check_whole("burst", self.burst, 1, self.per_minute or 1)
        object.__setattr__(self, "order", word(FlowOrder, "order", self.order))
        object.__setattr__(self, "on_full", word(OnFull, "on_full", self.on_full))
        check_flag("strict", self.strict)
        if self.at_a_time is None and self.on_full is OnFull.CANCEL_OLD:
            remedy = "give at_a_time as well, or another on_full"
            raise InvalidInput("on_full", str(self.on_full), "has nobody to cancel without at_a_time", remedy)

    def __repr__(self) -> str:
        return f"Flow({', '.join(f'{name}={value!r}' for name, value in self.as_dict().items())})"

    def as_dict(self) -> dict[str, Any]:
        """The fields that differ from their defaults, as JSON values."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return {name: str(value) if isinstance(value, StrEnum) else value for name, value in given.items()}

    @property
    def interval(self) -> float:
        """Milliseconds between two starts; 0: any number may start."""
        return 60_000 / self.per_minute if self.per_minute else 0

    def key_of(self, payload: str | None) -> str:
        """The key of a run with this payload (JSON text): the text at the path. Runs whose payload lacks it share the key "null"."""
        if self.key is None:
            return ""
        found = json.loads(payload) if payload else None
        for name in self.key.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        return found if isinstance(found, str) else json.dumps(found, sort_keys=True, separators=(",", ":"))


def parse_flow(given: Mapping[str, Any]) -> Flow:
    """The reverse of ``as_dict``; ignores what a later release has added. Raises InvalidInput."""
    known = {f.name for f in fields(Flow)}
    return Flow(**{name: value for name, value in given.items() if name in known})


def flow_digest(flow: Flow, job: str, key: str) -> str:
    """Names the permits of one key of a flow: 32 hexadecimal digits."""
    whose = f"job {job}" if flow.name is None else f"flow {flow.name}"
    return hashlib.sha256(f"{whose}\n{key}".encode()).hexdigest()[:32]


def flow_label(flow: Flow, job: str, key: str) -> str:
    """Names a key for people."""
    short = key if len(key) <= _LONGEST_LABEL else f"{key[: _LONGEST_LABEL - 1]}…"
    return f"{flow.name or job} {short!r}" if flow.key is not None else flow.name or job


def starts_of(flow: Flow, slot: int, now: int, upto: int, most: int) -> tuple[list[int], int]:
    """The next starts of a flow from ``now`` up to an instant (UTC ms), at most so many, and its slot after them."""
    if not flow.interval:
        return [now] * most, slot
    starts, early = list[int](), (flow.burst - 1) * flow.interval
    while len(starts) < most and (start := max(now, math.ceil(slot - early))) <= upto:
        starts.append(start)
        slot = math.ceil(max(slot, start) + flow.interval)
    return starts, slot

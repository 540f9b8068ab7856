"""Values that nobody should pass, beside those that are fine: for every argument of the SDK, by its name."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from typing import Any

from hypothesis import strategies as st
from quarterjack import Retry
from quarterjack.errors import shorten
from quarterjack.timing import Rule

from tests.support.scenes.world import START

Values = st.SearchStrategy[Any]
HALF = "\ud83d"  # half a surrogate pair
DEEP = 100_000  # levels


class Mute:
    """Somebody else's object: it cannot be shown, compared or hashed."""

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise RuntimeError("no")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")


class Liar(tzinfo):
    """A zone that has no answer."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        raise LookupError("nowhere")

    def dst(self, moment: datetime | None) -> timedelta | None:
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        return None


class NotATime(datetime):
    """As pandas' NaT: a datetime by its class, and by nothing else."""

    def utcoffset(self) -> Any:
        return self

    def __sub__(self, other: object) -> Any:
        return self

    def __lt__(self, other: object) -> bool:
        return False


class Word(Enum):
    ONE = 1


class Text(str):
    __slots__ = ()


def nested(levels: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(levels):
        inner = [inner]
    return inner


NAT = NotATime(2026, 5, 4, tzinfo=UTC)
MOMENTS: tuple[Any, ...] = (
    datetime(2026, 5, 4, 12, 0),  # noqa: DTZ001 (that is the point)
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=23, minutes=59))),
    datetime.max.replace(tzinfo=timezone(-timedelta(hours=23, minutes=59))),
    datetime(2026, 5, 4, tzinfo=Liar()),
    NAT,
    date(2026, 5, 4),
    "2026-05-04T12:00:00Z",
    timedelta.max,
    timedelta.min,
)
_CURSORS: tuple[Any, ...] = (
    7,
    [],
    {},
    ["acme/s", ""],
    ["acme/s", HALF],
    ["acme/s", "x" * 3_000],
    ["acme", "#1#a#b"],
    ["acme", None],
)
CURSORS: tuple[Any, ...] = (
    base64.urlsafe_b64encode(b"[" * DEEP).decode(),
    *(base64.urlsafe_b64encode(json.dumps(given).encode()).decode() for given in _CURSORS),
)
TEXTS = (
    "",
    " ",
    "x" * 300,
    "\x00",
    HALF,
    "a#b",
    "~tenant",
    "ä",
    "😀" * 30,
    "../..",
    "a/b",
    "'; --",
    "%s",
    "NaN",
    "\r\n",
)
NUMBERS = (0, -1, 1, True, 2**63, 10**30, -(10**400), 0.5, -0.0, float("nan"), float("inf"), 1e308, Decimal("NaN"))


class Odd:
    """A value in a wrapper: hypothesis shows and compares what it draws, which some of these do not stand."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Odd({shorten(self.value)})"


THINGS: tuple[Any, ...] = (
    None,
    b"x",
    [],
    {},
    (),
    {1, 2},
    object(),
    Mute(),
    Word.ONE,
    Text("s"),
    int,
    len,
    nested(DEEP),
)
HOSTILE: Values = st.one_of(
    *(st.sampled_from([Odd(value) for value in pool]) for pool in (MOMENTS, CURSORS, TEXTS, NUMBERS, THINGS)),
    st.lists(st.sampled_from([Odd(moment) for moment in MOMENTS]), max_size=3).map(
        lambda odd: Odd(tuple(one.value for one in odd))
    ),
    st.text(max_size=20).map(Odd),
    st.integers().map(Odd),
    st.floats().map(Odd),
    st.datetimes(timezones=st.none() | st.just(UTC)).map(Odd),
    st.lists(st.text(max_size=3), max_size=3).map(Odd),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3) | st.none(), max_size=3).map(Odd),
)


def among(*values: Any) -> Values:
    return st.sampled_from(values)


PAST, FUTURE = START - timedelta(hours=1), START + timedelta(hours=1)
# What is fine, by the name of the parameter; ``None`` stands for what most of them may be left as.
FINE: dict[str, Values] = {
    "name": among("s", "rests", "new", "gone"),
    "job": among("note", "bad"),
    "expression": among("* * * * *", "rate(5 minutes)", ["0 9 * * *", "0 18 * * *"], Rule(expression="0 12 * * *")),
    "timezone": among(None, "UTC", "Europe/Berlin"),
    "payload": among(None, {"n": 1}, "x" * 500, "x" * 70_000),
    "description": among("", "text"),
    "tags": among(None, {"team": "a"}, {"team": "b", "x": ""}),
    "delivery": among(None, "at_most_once", "exactly_once"),
    "start": among(None, "exact", "prompt"),
    "retry": among(None, Retry(max_attempts=2)),
    "timeout": among(0.0, 1),
    "deadline": among(None, 60),
    "client_token": among(None, "t1"),
    "managed_by": among(None, "acme.jobs"),
    "expected_revision": among(None, 1, 2),
    "reason": among(None, "because"),
    "until": among(FUTURE, PAST),
    "since": among(None, PAST),
    "after": among(None, PAST),
    "before": among(None, FUTURE),
    "drain": st.booleans(),
    "run_at": among(None, FUTURE),
    "delay": among(None, 5, timedelta(minutes=1)),
    "idempotency_key": among(None, "k1", "k2"),
    "queue": among(None, "default"),
    "state": among(None, "ACTIVE", "PAUSED"),
    "tag": among(None, "team", ("team", "a")),
    "failing": among(None, True, False),
    "prefix": among("", "s"),
    "limit": among(1, 100),
    "count": among(1, 10),
    "cursor": st.none(),
    "action": among("pause", "resume", "delete", "retag", "trigger"),
    "rate": among(1_000.0),
    "order": among("oldest", "newest"),
    "concurrency": among(1, 10),
    "schedule": among(None, "s"),
    "error_type": among(None, "ValueError"),
    "end": among(PAST, START),
    "between": st.just((PAST, FUTURE)),
    "catch_up": among("all", "latest", "none"),
    "catch_up_window": among(60.0, 0),
    "overlap": among("allow", "skip", "buffer_one"),
    "buffer": among(1, 100),
    "max_running": among(None, 2),
    "pause_on_failure": among(None, 3),
    "on_failure": among(None, "job:note"),
    "on_recovery": among(None, "arn:aws:sns:eu-central-1:1:topic"),
    "expect_success_within": among(None, 3_600.0),
    "alert_if_running_longer_than": among(None, 3_600.0),
    "must_end_by": among(None, 3_600.0, "06:00"),
}
FLAGS = st.booleans()  # of every other parameter


def fine(method: str, name: str) -> Values:
    """Values of a parameter that its method can work with."""
    if (method, name) == ("backfill", "start"):
        return among(PAST - timedelta(hours=1), PAST)
    return FINE.get(name, FLAGS)

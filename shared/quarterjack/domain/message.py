"""Messages: of the work queue, and of the dead-letter queue, which contain one of the former; and the schema number of both.

A message that cannot be decoded may still name its run, which is then sent anew from its row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from enum import StrEnum
from operator import itemgetter
from typing import Any

from quarterjack.domain.names import RunRef, parse_run_id, storable
from quarterjack.domain.payload import MAX_DEPTH, is_too_deep
from quarterjack.domain.policies import Priority, Start
from quarterjack.errors import InvalidInput, QuarterjackError, TooNew, Unreadable, shorten
from quarterjack.values import replace, value

SCHEMA = 1  # of items and letters; raised for a change that an older release would misunderstand
MESSAGE_SCHEMA = 2  # of messages; since 2 they say nothing that the run's row or revision has
_LAST_SCHEMA = 1_000  # what claims a later one is no message of a later release, which would wait for its deployment

# The exceptions that reading a foreign item may raise.
GARBAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def check_schema(given: Mapping[str, Any], what: str) -> None:
    """Raises TooNew for an item or message of a later schema."""
    schema = given.get("v", 1)
    if isinstance(schema, int) and schema > _LAST_SCHEMA:
        raise Unreadable(f"{what} of schema {shorten(schema)}: no release writes that")
    if isinstance(schema, int) and schema > SCHEMA:
        raise TooNew(
            f"{what} of schema {schema}: this release reads up to {SCHEMA}; deploy the newer one to all functions"
        )


@contextmanager
def reading(what: str, given: Mapping[str, Any]) -> Iterator[None]:
    """Errors within are the item's: raises Unreadable or TooNew."""
    check_schema(given, what)
    try:
        yield
    except QuarterjackError:
        raise
    except GARBAGE as problem:
        raise unreadable(what, problem) from problem


def unreadable(what: str, problem: BaseException) -> Unreadable:
    return Unreadable(f"{what} cannot be read: {type(problem).__name__}: {shorten(str(problem))}")


INLINE_PAYLOAD = 64 * 1024  # bytes: 64 KB are billed as one request; a larger payload is in the bucket
_DEEPEST = 2 * MAX_DEPTH  # levels, with room for the fields of a later release
_LARGEST = 10**15  # larger than every UTC ms, revision and fence
_encode = json.JSONEncoder(separators=(",", ":")).encode  # created once: json.dumps creates an encoder for each call
_decode = json.JSONDecoder().decode


class Wait(StrEnum):
    """What a run had to wait for after its time, other than a worker."""

    PERMIT = "permit"  # a permit of a concurrency cap, in its wait queue
    BREAKER = "breaker"  # a circuit breaker, in the agenda or in the queue


@value(kw_only=True)
class Message:
    """A request to look at a run. What runs, for whom and whether, the run's row and its revision say (``state.run_spec``).

    Everything else is a hint: anybody who may send to the queue can write it.
    """

    run: RunRef
    revision: int  # of its schedule; of a one-off: how often it was moved. The lease requires it of the row
    not_before: int  # UTC ms before which no attempt may start; the lease requires it of the row
    start: Start = Start.PROMPT  # how soon after not_before it should start
    fence: int = 0  # of the run when the message was sent
    trace: str | None = None  # X-Ray trace header
    returned: int = 0  # how often the undertaker has sent it again
    unknown_since: int | None = None  # UTC ms at which a worker first did not know the job
    backfill: str | None = None  # id of the backfill that it belongs to; the lease requires it of the row
    waited: frozenset[Wait] = frozenset()  # for what it has waited: its start is late on purpose
    queue: str | None = field(default=None, compare=False)  # where it is sent to; its text does not say
    priority: Priority = field(default=Priority.NORMAL, compare=False)  # likewise, whose lane there
    since: int | None = field(
        default=None, compare=False
    )  # likewise: UTC ms since which its run could start; None: not_before
    later: Mapping[str, Any] = field(default_factory=dict, compare=False)  # fields of a later release, kept unchanged

    @property
    def was_queued(self) -> bool:
        """Whether it has waited in the wait queue of a concurrency cap: it goes before those that have not."""
        return Wait.PERMIT in self.waited

    def having_waited(self, word: Wait) -> Message:
        """The same after it waited for one thing more."""
        return replace(self, waited=self.waited | {word})

    def encode(self) -> str:
        """JSON without the fields that have their defaults."""
        body: dict[str, Any] = {"v": MESSAGE_SCHEMA, "run": str(self.run), "not_before": self.not_before}
        optional = {
            "rev": self.revision,
            "start": None if self.start is Start.PROMPT else str(self.start),
            "fence": self.fence,
            "trace": self.trace,
            "returned": self.returned,
            "unknown_since": self.unknown_since,
            "backfill": self.backfill,
            "waited": sorted(self.waited),
        }
        body |= filter(itemgetter(1), optional.items())
        return _encode(body | dict(self.later))


def decode(text: str) -> Message:
    """The reverse of ``encode``. Raises Unreadable or TooNew."""
    try:
        if is_too_deep(text, _DEEPEST):  # a fixed limit: that of Python's parser depends on its caller's depth
            raise ValueError(f"nested more than {_DEEPEST} levels deep")
        body = _decode(text)
        _check_version(body.pop("v"))
        given, later = dict[str, Any](revision=0), dict[str, Any]()
        for name, content in body.items():
            if name in _FIELDS:
                field, read = _FIELDS[name]
                given[field] = read(content)
            else:
                later[name] = content
        return Message(**given, later=later)
    except Unreadable:
        raise
    except Exception as problem:  # foreign text may raise any error here
        raise Unreadable(f"not a message of Quarterjack: {type(problem).__name__}: {problem}") from problem


def _check_version(version: Any) -> None:
    """Raises TooNew, or Unreadable for a message of an older release: it says what only the row may say."""
    if not isinstance(version, int) or not 1 <= version <= _LAST_SCHEMA:
        raise ValueError(f"v={shorten(version)} is no schema")
    if version > MESSAGE_SCHEMA:
        raise TooNew(
            f"message of schema {shorten(version)}: this release reads {MESSAGE_SCHEMA}; deploy the workers first"
        )
    if version != MESSAGE_SCHEMA:
        raise Unreadable(f"message of schema {shorten(version)}: this release reads only {MESSAGE_SCHEMA}")


def _optional_text(value: Any) -> str | None:
    if not (value is None or isinstance(value, str)):
        raise ValueError(f"{shorten(value)} is not text")
    return value


def _whole(value: Any) -> int:
    """A whole number in the range of times, revisions and fences."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _LARGEST:
        raise ValueError(f"{shorten(value)} is not a whole number of fitting size")
    return value


def _time(value: Any) -> int | None:
    """UTC ms; None for 0."""
    return _whole(value) or None


def _waits(value: Any) -> frozenset[Wait]:
    return frozenset(map(Wait, value))


_FIELDS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {  # of the text: of Message, and how the value is read
    "run": ("run", parse_run_id),
    "rev": ("revision", _whole),
    "not_before": ("not_before", _whole),
    "start": ("start", Start),
    "fence": ("fence", _whole),
    "trace": ("trace", _optional_text),
    "returned": ("returned", _whole),
    "unknown_since": ("unknown_since", _time),
    "backfill": ("backfill", _optional_text),
    "waited": ("waited", _waits),
}

# In an older release's message the payload was the last field and could contain any text: only the text before it is searched.
_PAYLOAD = re.compile(r'"payload"\s*:')
_RUN = re.compile(r'"run"\s*:\s*"([^"\\]{1,1000})"')


def named_run(text: str) -> RunRef | None:
    """The run that the text of a message names before its payload; None if it names none."""
    payload = _PAYLOAD.search(text)
    found = _RUN.search(text[: payload.start()] if payload else text)
    try:
        return None if found is None else parse_run_id(found[1])
    except InvalidInput:
        return None


# Characters of the message in a letter. With six bytes for each, the letter and its error fit 256 KB: a letter that the queue does
# not take would keep its message going round, unseen.
LONGEST_BODY = 20_000
REJECTED = "REJECTED"  # of a letter: its message was not the run's, which it does not concern
UNREADABLE = "UNREADABLE"  # of a letter: its worker could not decode its message


@value(kw_only=True)
class DeadLetter:
    """A message that failed for good, with the verdict of the worker that sent it."""

    body: str  # the message as it was in the work queue; of one that is far too long, what a letter can hold
    reason: str  # of the verdict
    fence: int = 0  # of the run at the verdict
    error_type: str = ""  # of the last failure
    error: str = ""  # its message
    traceback: str = ""  # its traceback, shortened
    state: str = ""  # LOST, EXPIRED, REJECTED or UNREADABLE; empty: DEAD


def encode_letter(letter: DeadLetter) -> str:
    verdict = {name: value for name, value in vars(letter).items() if value and name != "body"}
    return json.dumps({"letter": 1, "body": _fitting(letter.body), "verdict": verdict}, separators=(",", ":"))


def _fitting(body: str) -> str:
    """A text that fits a letter: of a message that is longer than any of ours, what we would have written, or the beginning."""
    if len(body) <= LONGEST_BODY:
        return body
    with suppress(Unreadable, TooNew):
        body = replace(decode(body), trace=None, later={}).encode()
    return body[:LONGEST_BODY]


def decode_letter(text: str) -> DeadLetter | None:
    """A letter from its JSON; None for a message that SQS itself moved to the dead-letter queue. Raises TooNew."""
    if is_too_deep(text):  # a letter has two levels: the message in it is a string
        return None
    try:
        given = json.loads(text)
    except ValueError:
        return None
    if not isinstance(given, dict) or "letter" not in given:
        return None
    check_schema({"v": given["letter"]}, "letter")
    verdict = given["verdict"] if isinstance(given.get("verdict"), dict) else {}
    fence = verdict.get("fence", 0)
    return DeadLetter(
        body=_text_of(given, "body"),
        reason=_text_of(verdict, "reason") or "unknown",
        fence=fence if isinstance(fence, int) else 0,
        **{name: _text_of(verdict, name) for name in ("error_type", "error", "traceback", "state")},
    )


def _text_of(given: Mapping[str, Any], name: str) -> str:
    """A field as text that a table takes; whoever may send a letter can put anything there."""
    return storable(str(given.get(name, "")))

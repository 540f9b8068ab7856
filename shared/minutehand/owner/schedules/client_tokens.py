"""Client tokens: a call that is repeated with its token returns what the first one did, instead of acting again.

A token's record is put in the very transaction of its act: it is there if and only if the act is, so dying before or after leaves
nothing to find out. A call that finds nothing to change leaves the record alone. The head is read before the token: a token that
is not there then belongs to an act that would move the head, and the transaction of whoever comes second is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from minutehand.domain.formats.schema import reading
from minutehand.domain.schedule import ChangeKind, Head, ScheduleState
from minutehand.domain.times import DAY
from minutehand.errors import AlreadyExists, Conflict, Unavailable
from minutehand.fires.withdraw import withdraw
from minutehand.ports.clock import Clock
from minutehand.ports.records import Record
from minutehand.ports.services import Services

_RACES = 3  # times that another call with the same token may be faster
HELD = DAY  # ms for which a token stands for its call


@dataclass(frozen=True, kw_only=True)
class ClientToken:
    """What a caller repeats a call by."""

    tenant: str  # whose
    text: str  # as given
    act: str  # the call and its schedule, in words for an error
    said: str  # digest of the call and all its arguments

    @property
    def place(self) -> tuple[str, str]:
        """Owner and key of its record."""
        return f"{self.tenant}/~token", f"~token~{self.text}"


@dataclass(frozen=True, kw_only=True)
class ChangeResult:
    """What a call came to."""

    head: Head  # as the call left it
    change: ChangeKind  # what it did


@dataclass(frozen=True, kw_only=True)
class TokenState:
    """What is known of a call's token."""

    token: ClientToken | None = None  # None: the call has none
    first: ChangeResult | None = None  # what the first call with it came to; None: this is the first
    version: int = 0  # of a record that is over and still there
    now: int = 0  # UTC ms

    def record(self, done: ChangeResult) -> Record | None:
        """What to write beside the act; None without a token."""
        if self.token is None:
            return None
        owner, key = self.token.place
        body = {
            "act": self.token.act,
            "said": self.token.said,
            "change": str(done.change),
            "head": _head_body(done.head),
        }
        return Record(owner=owner, key=key, version=self.version + 1, body=body, expires=self.now + HELD)


def recall(token: ClientToken | None, services: Services, now: int) -> TokenState:
    """What a token stands for. Raises AlreadyExists if it is that of another call."""
    if token is None:
        return TokenState(now=now)
    version, body = _noted(token, services, now)
    if body is None:
        return TokenState(token=token, version=version, now=now)
    with reading(f"client_token={token.text!r}", body):
        first = ChangeResult(head=_head_of(body["head"]), change=ChangeKind(body["change"]))
    return TokenState(token=token, first=first, now=now)


def _noted(token: ClientToken, services: Services, now: int) -> tuple[int, Mapping[str, Any] | None]:
    """The version of a token's record, and what it says unless that is over."""
    record = services.records.read(*token.place)
    if record is None:
        return 0, None
    if record.expires is not None and record.expires <= now:
        return record.version, None
    with reading(f"client_token={token.text!r}", record.body):
        is_this = record.body["said"] == token.said
    if not is_this:
        raise AlreadyExists(
            f"client_token={token.text!r}: within the last day it was used for {record.body.get('act')}"
            f"{' with other arguments' if record.body.get('act') == token.act else ''}; use a new token for each new call"
        )
    return record.version, record.body


# Calls whose act is no transaction: the record comes first, and names the one thing that they may bring about.


def noted(token: ClientToken, services: Services, now: int) -> str | None:
    """What an earlier call with this token was going to bring about. Raises AlreadyExists if it is that of another call."""
    body = _noted(token, services, now)[1]
    return None if body is None else str(body["word"])


def note(token: ClientToken, word: str, services: Services, now: int) -> str:
    """Note what a call is going to bring about; what a call with the same token that was faster notes instead.

    Raises AlreadyExists if the token is that of another call, Conflict.
    """
    for _ in range(_RACES):
        version, body = _noted(token, services, now)
        if body is not None:
            return str(body["word"])
        record = {"act": token.act, "said": token.said, "word": word}
        owner, key = token.place
        if services.records.write(Record(owner=owner, key=key, version=version + 1, body=record, expires=now + HELD)):
            return word
    raise Conflict(f"client_token={token.text!r}: others used it {_RACES} times meanwhile; try again")


def finish(first: ChangeResult, services: Services, clock: Clock) -> None:
    """Do again what follows the transaction: the first call may have died in between. Raises Unavailable."""
    number = first.head.revision
    answer = services.schedules.revisions([(first.head.owner, number), (first.head.owner, number - 1)])
    if answer.unanswered:
        raise Unavailable(f"the revisions of {first.head.owner!r} could not be read; call again to finish")
    for revision in answer.found.values():
        if revision.active_until is not None:
            withdraw(revision, services, clock)


def _head_body(head: Head) -> dict[str, Any]:
    return {name: value for name, value in asdict(head).items() if value is not None}


def _head_of(body: Mapping[str, Any]) -> Head:
    known = {f.name for f in fields(Head)}
    given = {name: value for name, value in body.items() if name in known}
    return Head(**(given | {"state": ScheduleState(given["state"])}))

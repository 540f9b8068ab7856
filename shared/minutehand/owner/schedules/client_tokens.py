"""Client tokens: a call that is repeated with its token returns the result of the first. And the head cache of bulk calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from minutehand.domain.message import reading
from minutehand.domain.schedule import ChangeKind, Head, Revision, ScheduleState
from minutehand.domain.times import DAY
from minutehand.errors import AlreadyExists, Conflict, Unavailable
from minutehand.fires.withdraw import withdraw
from minutehand.ports.records import Record
from minutehand.ports.schedules import RevisionBatch, RevisionKey, ScheduleStore
from minutehand.ports.services import Clock, Services

_RACES = 3  # writes that another call with the same token may win
TOKEN_LIFE = DAY  # ms for which a token stands for its call


@dataclass(frozen=True, kw_only=True)
class ClientToken:
    """The identity of a call that may be repeated."""

    tenant: str  # whose
    text: str  # as given
    act: str  # the call and its schedule, in words for an error
    digest: str  # of the call and all its arguments

    @property
    def place(self) -> tuple[str, str]:
        """Owner and key of its record."""
        return f"{self.tenant}/~token", f"~token~{self.text}"


@dataclass(frozen=True, kw_only=True)
class ChangeResult:
    """The result of a change."""

    head: Head  # after the call
    change: ChangeKind


@dataclass(frozen=True, kw_only=True)
class TokenState:
    """A call's token, and the result of the first call with it."""

    token: ClientToken | None = None  # None: the call has none
    first: ChangeResult | None = None  # the result of the first call; None: this is the first
    version: int = 0  # of an expired record that is still there
    now: int = 0  # UTC ms

    def record(self, done: ChangeResult) -> Record | None:
        """The record to write with the act; None without a token."""
        if self.token is None:
            return None
        owner, key = self.token.place
        body = {
            "act": self.token.act,
            "digest": self.token.digest,
            "change": str(done.change),
            "head": _head_body(done.head),
        }
        return Record(owner=owner, key=key, version=self.version + 1, body=body, expires=self.now + TOKEN_LIFE)


def recall(token: ClientToken | None, services: Services, now: int) -> TokenState:
    """The state of a call's token. Raises AlreadyExists if another call used the token."""
    if token is None:
        return TokenState(now=now)
    version, body = _read_record(token, services, now)
    if body is None:
        return TokenState(token=token, version=version, now=now)
    with reading(f"client_token={token.text!r}", body):
        first = ChangeResult(head=_head_of(body["head"]), change=ChangeKind(body["change"]))
    return TokenState(token=token, first=first, now=now)


def _read_record(token: ClientToken, services: Services, now: int) -> tuple[int, Mapping[str, Any] | None]:
    """The version of a token's record, and its body unless it has expired."""
    record = services.records.read(*token.place)
    if record is None:
        return 0, None
    if record.expires is not None and record.expires <= now:
        return record.version, None
    with reading(f"client_token={token.text!r}", record.body):
        is_this = record.body["digest"] == token.digest
    if not is_this:
        raise AlreadyExists(
            f"client_token={token.text!r}: within the last day it was used for {record.body.get('act')}"
            f"{' with other arguments' if record.body.get('act') == token.act else ''}; use a new token for each new call"
        )
    return record.version, record.body


# Calls whose act is no transaction: the record comes first, with a word that identifies the one thing that they may do.


def remembered_word(token: ClientToken, services: Services, now: int) -> str | None:
    """The word of an earlier call with this token. Raises AlreadyExists if another call used the token."""
    body = _read_record(token, services, now)[1]
    return None if body is None else str(body["word"])


def remember_word(token: ClientToken, word: str, services: Services, now: int) -> str:
    """Store a call's word; returns it, or the word of a faster call with the same token.

    Raises AlreadyExists if another call used the token, Conflict.
    """
    for _ in range(_RACES):
        version, body = _read_record(token, services, now)
        if body is not None:
            return str(body["word"])
        record = {"act": token.act, "digest": token.digest, "word": word}
        owner, key = token.place
        if services.records.write(
            Record(owner=owner, key=key, version=version + 1, body=record, expires=now + TOKEN_LIFE)
        ):
            return word
    raise Conflict(f"client_token={token.text!r}: others used it {_RACES} times meanwhile; try again")


def finish(first: ChangeResult, services: Services, clock: Clock) -> None:
    """Withdraw again after the first call's transaction: the first call may have died before it could. Raises Unavailable."""
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


class HeadCache:
    """A ``ScheduleStore`` that knows some heads and their revisions. Thread-safe."""

    def __init__(self, schedules: ScheduleStore, heads: Iterable[Head]) -> None:
        self._schedules = schedules
        self._heads = {(head.tenant, head.name): head for head in heads}
        keys = [(head.owner, head.revision) for head in self._heads.values()]
        self._revisions: dict[RevisionKey, Revision] = dict(schedules.revisions(keys).found) if keys else {}

    def head(self, tenant: str, name: str) -> Head | None:
        known = self._heads.pop((tenant, name), None)
        return self._schedules.head(tenant, name) if known is None else known

    def revisions(self, keys: Iterable[RevisionKey]) -> RevisionBatch:
        wanted = set(keys)
        known = {key: found for key in wanted if (found := self._revisions.pop(key, None)) is not None}
        if len(known) == len(wanted):
            return RevisionBatch(found=known)
        answer = self._schedules.revisions(wanted - known.keys())
        return replace(answer, found={**known, **answer.found})

    def __getattr__(self, name: str) -> Any:
        """All other calls go to the store."""
        return getattr(self._schedules, name)


def with_head_cache(services: Services, heads: Sequence[Head]) -> Services:
    """Services that answer the first read of these heads, and of their current revisions, without a request. Raises Unavailable."""
    schedules: Any = HeadCache(services.schedules, heads)
    return replace(services, schedules=schedules)

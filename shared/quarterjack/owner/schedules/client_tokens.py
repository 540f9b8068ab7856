"""Client tokens: a call that is repeated with its token returns the result of the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any

from quarterjack.domain.message import reading
from quarterjack.domain.schedule import ChangeKind, Head, ScheduleState
from quarterjack.domain.times import DAY
from quarterjack.errors import Conflict, KeyReused, NotFound, Unavailable
from quarterjack.fires.context import FireContext
from quarterjack.fires.withdraw import withdraw
from quarterjack.ports.services import Services
from quarterjack.stores.records import Record
from quarterjack.values import value

RACES = 5  # lost races before Conflict is raised
_TOKEN_RACES = 3  # writes that another call with the same token may win
TOKEN_LIFE = DAY  # ms for which a token stands for its call


@value(kw_only=True)
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

    def record(self, version: int, now: int, more: Mapping[str, Any]) -> Record:
        """The record to write over the one of ``version`` (0: there is none)."""
        owner, key = self.place
        body = {"act": self.act, "digest": self.digest, **more}
        return Record(owner=owner, key=key, version=version + 1, body=body, expires=now + TOKEN_LIFE)


@value(kw_only=True)
class ScheduleCall:
    """A call about one schedule."""

    tenant: str
    name: str  # of the schedule
    expected: int | None = None  # the revision that the caller saw; None: any
    version: int | None = None  # of the head that the caller saw: changes of description and tags count, too; None: any
    token: ClientToken | None = None  # by which a repeated call is recognised
    permit: Callable[[Head | None], None] = lambda head: None  # raises if the caller may not do this to the schedule

    def check(self, head: Head | None, *, deleted: bool = False) -> Head:
        """The head, if there is one. That of a deleted schedule counts only with ``deleted``, and not beyond its retention.

        Raises NotFound, and Conflict with both revisions if the caller saw another one.
        """
        is_gone = head is None or head.retired_at is not None
        if head is None or is_gone or (head.state is ScheduleState.DELETED and not deleted):
            raise NotFound(
                f"name={self.name!r}: tenant {self.tenant!r} has no schedule of that name; "
                "list_schedules() shows those it has"
            )
        if self.expected is not None and head.revision != self.expected:
            raise Conflict(
                f"name={self.name!r}: you saw revision {self.expected}, but revision {head.revision} is current; "
                "read it again"
            )
        if self.version is not None and head.version != self.version:
            raise Conflict(f"name={self.name!r}: it was changed after you had read it; read it again")
        return head

    def read(self, services: Services) -> Head:
        """The head, read strongly. Raises as ``permit`` and ``check``, Unavailable."""
        head = services.schedules.head(self.tenant, self.name)
        self.permit(head)
        return self.check(head)


@value(kw_only=True)
class ChangeResult:
    """The result of a change."""

    head: Head  # after the call
    change: ChangeKind


# Gets the head as it is now, and what makes the token's record (None without a token), to be written with the act.
Attempt = Callable[[Head | None, Callable[[ChangeResult], Record | None]], ChangeResult | None]


def change(call: ScheduleCall, context: FireContext, attempt: Attempt) -> ChangeResult:
    """Call ``attempt`` until it wins; None: another change was first. A repeated call returns the result of the first.

    Raises KeyReused if another call used the token, Conflict after RACES lost races.
    """
    services, head = context.services, None
    for _ in range(RACES):
        head = services.schedules.head(call.tenant, call.name)
        call.permit(head)
        first, remember = _recall(call, services, context.clock())
        if first is not None:
            _finish(first, context)
            return first
        done = attempt(head, remember)
        if done is not None:
            return done
    current = head.revision if head else 0
    raise Conflict(
        f"name={call.name!r}: others changed it {RACES} times meanwhile (last seen: revision {current}); try again"
    )


def _forget(done: ChangeResult) -> None:
    """The record of a call without a token."""
    del done


def _recall(
    call: ScheduleCall, services: Services, now: int
) -> tuple[ChangeResult | None, Callable[[ChangeResult], Record | None]]:
    """The result of the first call with the token, if this is another one; and what makes the token's record."""
    token = call.token
    if token is None:
        return None, _forget
    version, body = _read_record(token, services, now)
    if body is not None:
        with reading(f"client_token={token.text!r}", body):
            first = ChangeResult(head=_head_of(body["head"]), change=ChangeKind(body["change"]))
            if (first.head.tenant, first.head.name) != (call.tenant, call.name):
                raise ValueError(f"it is about {first.head.owner!r}")
            return first, _forget

    def remember(done: ChangeResult) -> Record:
        head = {name: value for name, value in asdict(done.head).items() if value is not None}
        return token.record(version, now, {"change": str(done.change), "head": head})

    return None, remember


def _read_record(token: ClientToken, services: Services, now: int) -> tuple[int, Mapping[str, Any] | None]:
    """The version of a token's record, and its body unless it has expired. Raises KeyReused if another call used the token."""
    record = services.records.read(*token.place)
    if record is None:
        return 0, None
    if record.expires is not None and record.expires <= now:
        return record.version, None
    with reading(f"client_token={token.text!r}", record.body):
        is_this = record.body["digest"] == token.digest
    if not is_this:
        raise KeyReused(
            f"client_token={token.text!r}: within the last day it was used for {record.body.get('act')}"
            f"{' with other arguments' if record.body.get('act') == token.act else ''}; use a new token for each new call"
        )
    return record.version, record.body


def _finish(first: ChangeResult, context: FireContext) -> None:
    """Withdraw again after the first call's transaction: the first call may have died before it could. Raises Unavailable."""
    owner, number = first.head.owner, first.head.revision
    answer = context.services.schedules.revisions([(owner, number), (owner, number - 1)])
    if answer.unanswered:
        raise Unavailable(f"the revisions of {owner!r} could not be read; call again to finish")
    for revision in answer.found.values():
        if revision.active_until is not None:
            withdraw(revision, context)


def _head_of(body: Mapping[str, Any]) -> Head:
    known = {f.name for f in fields(Head)}
    given = {name: value for name, value in body.items() if name in known}
    return Head(**(given | {"state": ScheduleState(given["state"])}))


# Calls whose act is no transaction: the record comes first, with a word that identifies the one thing that they may do.


def read_progress(token: ClientToken, services: Services, now: int) -> tuple[int, Mapping[str, Any]]:
    """The version of the record of a call that goes on, and how far it is: {} before it began. Raises KeyReused."""
    version, body = _read_record(token, services, now)
    return version, {} if body is None else body


def remembered_word(token: ClientToken, services: Services, now: int) -> str | None:
    """The word of an earlier call with this token. Raises KeyReused if another call used the token."""
    body = _read_record(token, services, now)[1]
    return None if body is None else str(body["word"])


def remember_word(token: ClientToken, word: str, services: Services, now: int) -> str:
    """Store a call's word; returns it, or the word of a faster call with the same token.

    Raises KeyReused if another call used the token, Conflict.
    """
    for _ in range(_TOKEN_RACES):
        version, body = _read_record(token, services, now)
        if body is not None:
            return str(body["word"])
        if services.records.write(token.record(version, now, {"word": word})):
            return word
    raise Conflict(f"client_token={token.text!r}: others used it {_TOKEN_RACES} times meanwhile; try again")


def remember_act(token: ClientToken, services: Services, now: int, *, dry_run: bool) -> None:
    """Note what a token is for, where each thing that is done has a key of its own. A dry run only reads.

    Raises KeyReused if another call used the token, Conflict.
    """
    if dry_run:
        remembered_word(token, services, now)
    else:
        remember_word(token, token.act, services, now)

"""The erasure of a tenant: where it stands, what it has removed, and what is left when it has ended. Pure.

    begun ──10 s──► pass 1 ──── 16 min after the beginning ────► pass 2 ──► … a pass that finds nothing ──► certificate ──► ended

A pass looks at every place in which the tenant's data may lie, and removes what it finds. Only a pass that began long after the
beginning may be the last one: by then whatever was under way has ended.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.values import replace

BELIEF = 10 * SECOND  # ms from the beginning to the first pass: by then every process goes by the tenant's new state
# ms from the beginning to the first pass that may be the last one. No function runs for longer than 15 minutes, and a worker that has
# lost its lease writes nothing; so only a process that stood still for so long could write later.
QUIET = 16 * MINUTE
PARTS = 8  # of a table that are read at the same time


class ErasurePlace(StrEnum):
    """Where data of a tenant may lie, in the order of a pass: first what makes new runs, last what tells of them."""

    AGENDA = "agenda"
    REVISIONS = "revisions"
    SCHEDULES = "schedules"
    RUNS = "runs"
    HISTORY = "history"
    AUDIT = "audit"
    TENANTS = "tenants"
    PAYLOADS = "payloads"
    RESULTS = "results"
    ARCHIVE = "archive"
    INBOX = "inbox"
    SECRETS = "secrets"

    @property
    def parts(self) -> int:
        """How many parts of it are read at the same time: folders of a bucket, and secrets, are listed from one end."""
        return 1 if self in _FOLDERS else PARTS


PLACES = tuple(ErasurePlace)
_FOLDERS = frozenset(
    {ErasurePlace.PAYLOADS, ErasurePlace.RESULTS, ErasurePlace.ARCHIVE, ErasurePlace.INBOX, ErasurePlace.SECRETS}
)


class DataKind(StrEnum):
    """What is removed, as the certificate names it."""

    ENTRY = "agenda entries"
    REVISION = "revisions"
    FREEZE = "freezes"
    SCHEDULE = "schedules"
    RUN = "runs"
    BESIDE = "attempts, steps, results and payloads beside runs"
    RECORD = "records: backfills, client tokens, incidents"
    DEAD_ENTRY = "entries of the index of dead runs"
    SHARED_RECORD = "records of the installation that named it"
    HISTORY = "rows of the history"
    AUDIT_ENTRY = "texts of audit entries"
    SETTING = "settings of the tenant"
    PAYLOAD = "payloads in the bucket"
    RESULT = "results in the bucket"
    ARCHIVED = "objects of the archive"
    INBOX = "objects of the archive's inbox, rewritten without it"
    PARAMETER = "secrets in Parameter Store"


class Kept(StrEnum):
    """What a pass meets and leaves."""

    RUNNING = "runs that a worker still has, and was asked to end"
    DIGEST = "digests of audit entries"
    CLOSE = "closes and gates of audit days"
    DAY = "marks of audit days"
    OWN_ENTRY = "audit entries of the erasure and of refusals since"
    LOCKED = "versions of objects under Object Lock"
    DAMAGED = "objects of the archive's inbox that cannot be read"
    UNKNOWN = "records of a later release that name it"


@dataclass(frozen=True, kw_only=True)
class ErasurePosition:
    """How far a pass has come."""

    place: int = 0  # index in PLACES; beyond them: at its end
    cursors: tuple[
        str | None, ...
    ] = ()  # of each part, where it goes on; "": at its beginning, None: it is done. Empty: not begun

    @property
    def is_end(self) -> bool:
        return self.place >= len(PLACES)

    @property
    def at(self) -> tuple[ErasurePlace, tuple[str | None, ...]]:
        """The present place and its cursors."""
        place = PLACES[self.place]
        return place, self.cursors or ("",) * place.parts

    def moved(self, cursors: tuple[str | None, ...]) -> ErasurePosition:
        if all(cursor is None for cursor in cursors):
            return ErasurePosition(place=self.place + 1)
        return replace(self, cursors=cursors)


@dataclass(kw_only=True)
class Swept:
    """What one step found."""

    cursors: tuple[str | None, ...]
    found: Counter[DataKind] = field(default_factory=Counter)  # removed, or to be removed where it is only counted
    kept: Counter[Kept] = field(default_factory=Counter)
    locked_until: int | None = None  # UTC ms: the latest end of a lock


@dataclass(frozen=True, kw_only=True)
class SweepRules:
    """How a step goes about it."""

    tenant: str
    began_at: int  # UTC ms of the erasure
    now: int  # UTC ms
    is_dry: bool = False  # count, and write nothing
    spares_running: bool = False  # leave runs whose leases are live, and ask their workers to end them


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """Where the erasure of a tenant stands."""

    tenant: str
    id: str  # of its certificate
    since: int  # UTC ms: when the tenant's erasure was asked for first
    began_at: int  # UTC ms: of this erasure; a repeated one looks whether anything has come since
    actor: str  # who asked for it
    reason: str | None = None
    number: int = 0  # of the present pass; 0: none has begun
    pass_began: int = 0  # UTC ms
    position: ErasurePosition = ErasurePosition()
    found: int = 0  # by the present pass
    removed: Mapping[DataKind, int] = field(default_factory=dict)  # in all
    kept: Mapping[Kept, int] = field(default_factory=dict)  # by the present pass
    locked_until: int | None = None  # UTC ms: the latest end of a lock that the present pass met
    ended_at: int | None = None  # UTC ms: the end of the pass that found nothing
    is_certified: bool = False
    version: int = 0  # of the stored row; 0: not stored

    @property
    def next_at(self) -> int:
        """UTC ms before which there is nothing to do."""
        if self.number == 0:
            return self.began_at + BELIEF
        return self.began_at + QUIET if self.position.is_end and not self._was_late else 0

    @property
    def _was_late(self) -> bool:
        """Whether the present pass may be the last one."""
        return self.pass_began >= self.began_at + QUIET

    @property
    def is_clean(self) -> bool:
        """Whether a pass that may be the last one has found nothing."""
        return self.number > 0 and self.position.is_end and self.found == 0 and self._was_late

    def rules(self, now: int) -> SweepRules:
        return SweepRules(tenant=self.tenant, began_at=self.began_at, now=now, spares_running=not self._was_late)

    def next_pass(self, now: int) -> Erasure:
        return replace(
            self,
            number=self.number + 1,
            pass_began=now,
            position=ErasurePosition(),
            found=0,
            kept={},
            locked_until=None,
        )

    def after(self, swept: Swept) -> Erasure:
        """Where it stands after a step."""
        untils = [until for until in (self.locked_until, swept.locked_until) if until is not None]
        return replace(
            self,
            position=self.position.moved(swept.cursors),
            found=self.found + swept.found.total() + swept.kept[Kept.RUNNING],
            removed=Counter(self.removed) + swept.found,
            kept=Counter(self.kept) + swept.kept,
            locked_until=max(untils, default=None),
        )

    def again(self, erasure_id: str, now: int, actor: str, reason: str | None) -> Erasure:
        """A further erasure of a tenant that was erased: it looks whether anything has come since, and counts on."""
        return Erasure(
            tenant=self.tenant,
            id=erasure_id,
            since=self.since,
            began_at=now,
            actor=actor,
            reason=reason,
            removed=self.removed,
            version=self.version,
        )


# Its stored form.


def body_of(erasure: Erasure) -> str:
    """An erasure as JSON; its tenant and version are columns of its row."""
    body = {name: value for name, value in vars(erasure).items() if name not in ("tenant", "version")}
    return json.dumps(body | {"position": vars(erasure.position)}, sort_keys=True)


def parse_body(tenant: str, version: int, text: str) -> Erasure:
    """The reverse of ``body_of``. Raises what such text makes Python raise, if it is none."""
    body: dict[str, Any] = json.loads(text)
    position = body.pop("position")
    removed = {DataKind(kind): int(count) for kind, count in body.pop("removed").items()}
    kept = {Kept(kind): int(count) for kind, count in body.pop("kept").items()}
    place = ErasurePosition(place=position["place"], cursors=tuple(position["cursors"]))
    return Erasure(tenant=tenant, version=version, position=place, removed=removed, kept=kept, **body)

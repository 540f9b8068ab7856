"""Trigger: a run of a schedule now, by its owner's hand.

    (key's record ──►) entry ──► run ──► message

It is no fire's: its key is its instant and a word, so it collides with none, and no chain comes to it. It has the definition of the
current revision, and from there on it is as a one-off: an update leaves it alone; a pause or delete that comes later takes it back
unless it has started. One that comes after a pause is the owner's act, and runs.

An idempotency key's instant is written down first: a call that is repeated, or finishes what one that died began, has the same run.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from minutehand.domain.formats.schema import reading
from minutehand.domain.names import aside_ref
from minutehand.domain.run import RunRow, RunState
from minutehand.domain.schedule import Head
from minutehand.errors import Conflict
from minutehand.fires.current import check_seen, must_exist
from minutehand.owner.runs.replay import Stored
from minutehand.owner.runs.submit import submit
from minutehand.ports.clock import Clock
from minutehand.ports.records import Record
from minutehand.ports.services import Services

_RACES = 3  # times that another call with the same key may be faster
_TOKEN = 32  # characters of what makes a triggered run's key its own


@dataclass(frozen=True, kw_only=True)
class TriggerSpec:
    """What is asked for."""

    token: str  # random text, for a trigger without a key
    key: str | None = None  # its idempotency key
    payload: Stored = (None, None)  # its own; neither: that of the schedule


def trigger(
    tenant: str, name: str, wish: TriggerSpec, services: Services, clock: Clock, *, expected: int | None = None
) -> RunRow:
    """Run a schedule now. ``expected``: the revision that the caller saw.

    Raises NotFound, AlreadyExists (its key has another payload), Conflict, Unavailable.
    """
    head = must_exist(tenant, name, services.schedules.head(tenant, name))
    check_seen(head, expected)
    now = clock()
    token = wish.token if wish.key is None else hashlib.sha256(wish.key.encode()).hexdigest()
    at = now if wish.key is None else _moment(head, wish.key, token, services, now)
    text, place = wish.payload
    run = RunRow(
        ref=aside_ref(head.owner, at, f"trigger-{token[:_TOKEN]}"),
        state=RunState.QUEUED,
        revision=head.revision,
        job=head.job,
        due=at,
        not_before=at,
        created_at=now,
        payload=text,
        payload_ref=place,
    )
    return submit(run, services, clock)


def _moment(head: Head, key: str, token: str, services: Services, now: int) -> int:
    """The instant (UTC ms) of the run that an idempotency key stands for, as long as the ledger keeps ended runs."""
    place = f"~trigger~{token[:_TOKEN]}"
    for _ in range(_RACES):
        there = services.records.read(head.owner, place)
        if there is not None and (there.expires or 0) > now:
            with reading(f"idempotency_key={key!r}", there.body):
                return int(there.body["at"])
        version = 0 if there is None else there.version
        expires = now + services.retention
        record = Record(owner=head.owner, key=place, version=version + 1, body={"at": now}, expires=expires)
        if services.records.write(record):
            return now
    raise Conflict(f"idempotency_key={key!r}: others used it {_RACES} times meanwhile; try again")

"""Trigger a run of a schedule now.

    (record of the idempotency key ──►) entry ──► run ──► message

The run's key is its instant and a word, so it collides with no fire, and no chain claims it. It has the definition of the current
revision. An update leaves it alone, like a one-off; a later pause or delete withdraws it unless it has started. A trigger after a pause
runs, because the owner asked for it.

The instant of an idempotency key is stored first, so that a repeated call, also after a crash of the first, has the same run.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from minutehand.domain.message import reading
from minutehand.domain.names import aside_ref
from minutehand.domain.run import RunRow, RunState
from minutehand.domain.schedule import Head
from minutehand.errors import Conflict
from minutehand.fires.current import check_seen, must_exist
from minutehand.owner.runs.redrive import Stored
from minutehand.owner.runs.submit import submit
from minutehand.ports.clock import Clock
from minutehand.ports.records import Record
from minutehand.ports.services import Services

_RACES = 3  # writes that another call with the same key may win
_TOKEN = 32  # characters of the token in a triggered run's key


@dataclass(frozen=True, kw_only=True)
class TriggerSpec:
    """A request to trigger a schedule."""

    token: str  # random text, for a trigger without a key
    key: str | None = None  # its idempotency key
    payload: Stored = (None, None)  # its own; (None, None): the schedule's


def trigger(
    tenant: str, name: str, spec: TriggerSpec, services: Services, clock: Clock, *, expected: int | None = None
) -> RunRow:
    """Run a schedule now. ``expected``: the revision that the caller saw.

    Raises NotFound, AlreadyExists (its key has another payload), Conflict, Unavailable.
    """
    head = must_exist(tenant, name, services.schedules.head(tenant, name))
    check_seen(head, expected)
    now = clock()
    token = spec.token if spec.key is None else hashlib.sha256(spec.key.encode()).hexdigest()
    at = now if spec.key is None else _instant_of(head, spec.key, token, services, now)
    text, place = spec.payload
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


def _instant_of(head: Head, key: str, token: str, services: Services, now: int) -> int:
    """The instant (UTC ms) of an idempotency key's run; the key is kept as long as the ledger keeps ended runs."""
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

"""Unique keys of runs: a record names the run that has a key, and the run that follows it. It is written with the run itself."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from quarterjack.domain.message import reading
from quarterjack.domain.names import RunRef, parse_run_id
from quarterjack.domain.run import AgendaEntry, RunRow
from quarterjack.state.transition import Transition
from quarterjack.state.waits.park import MAX_WAIT
from quarterjack.stores.agenda import entry_delete, entry_put
from quarterjack.stores.records import Record, record_of, record_write
from quarterjack.stores.rows import run_key
from quarterjack.stores.siblings import new_run, payload_put
from quarterjack.stores.tables import RUNS, RowTables, RowWrite
from quarterjack.values import value

_DIGEST = 32  # characters of the digest of a job and its key


@value(kw_only=True)
class UniqueKey:
    """Which runs have a key. A run that has ended has given it back: the record stays as it is."""

    tenant: str
    job: str  # whose key it is: the same text of another job is another key
    text: str  # as the caller gave it
    run: RunRef  # that had it first
    follower: RunRef | None = None  # that starts when that one has ended
    version: int = 1


class UniqueKeys:
    """The records of unique keys. ``retention``: milliseconds for which ended runs stay."""

    def __init__(self, tables: RowTables, *, retention: int) -> None:
        self._tables, self._retention = tables, retention

    def read(self, tenant: str, job: str, text: str) -> UniqueKey | None:
        """A key; None: no run has had it. Raises Unreadable."""
        row = self._tables.get("unique_key", RUNS, **_place(tenant, job, text))
        if row is None:
            return None
        record = record_of(row)
        with reading(f"unique={text!r}", record.body):
            return UniqueKey(
                tenant=tenant,
                job=job,
                text=text,
                run=parse_run_id(record.body["run"]),
                follower=_parsed(record.body.get("next")),
                version=record.version,
            )

    def submit(self, run: RunRow, key: UniqueKey) -> bool:
        """Put a run and the record of its key in one transaction; False: the run exists, or the key is not at the version before."""
        body: Mapping[str, object] = {"run": str(key.run), "next": None if key.follower is None else str(key.follower)}
        expires = max(run.due, run.created_at) + MAX_WAIT + self._retention
        place = _place(key.tenant, key.job, key.text)
        record = Record(**place, version=key.version, body=body, expires=expires)
        return self._tables.transact("submit_unique", [record_write(record), *new_run(run)], f"run {run.ref}")

    def resubmit(
        self,
        seen: RunRow,
        transition: Transition,
        *,
        beside: str | None,
        entries: tuple[AgendaEntry, AgendaEntry] | None,
    ) -> bool:
        """Apply a transition to a run as it was ``seen``, with a payload ``beside`` its row (None: there is none), in one transaction.

        ``entries``: the run's new agenda entry and its old one. False: the run is not as it was seen.
        """
        writes = [RowWrite(table=RUNS, row=run_key(seen.ref) | dict(transition.changes), only_if=transition.guard)]
        if beside is not None or seen.payload_beside:
            writes.append(payload_put(seen.ref, beside))
        if entries is not None:
            put, remove = entries
            writes += [entry_put(put), entry_delete(remove)] if put.key != remove.key else [entry_put(put)]
        return self._tables.transact(transition.name, writes, f"run {seen.ref}")


def _place(tenant: str, job: str, text: str) -> dict[str, str]:
    """The key of a record. Its digest spreads the keys of a tenant over 256 partitions."""
    digest = hashlib.sha256(f"{job}\n{text}".encode()).hexdigest()[:_DIGEST]
    return {"owner": f"{tenant}/~unique-{digest[:2]}", "key": f"~unique~{digest}"}


def _parsed(run_id: str | None) -> RunRef | None:
    return None if run_id is None else parse_run_id(run_id)

"""What wakes parked runs: the signals that a run got, links that send one, and which of its children have ended. Rows beside its row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from quarterjack.domain.audit import AuditEntryRow
from quarterjack.domain.names import RunRef
from quarterjack.domain.times import SECOND
from quarterjack.errors import Unavailable
from quarterjack.state.transition import Absent, Compare, all_of
from quarterjack.state.waits.park import MAX_WAIT
from quarterjack.state.waits.terms import WaitTerms, terms_of
from quarterjack.stores.audit import transact
from quarterjack.stores.rows import present, reads, run_key, run_ref
from quarterjack.stores.siblings import BESIDE, BesideKind, beside_prefix, result_key
from quarterjack.stores.tables import RUNS, Row, RowTables, RowWrite, begins_with, put_new
from quarterjack.values import value

_LINK = ("signal", "payload", "label", "actor")  # texts, named as the fields
_LINK_TIMES = ("made_at", "expires_at", "revoked_at")
_IS_VALID = all_of(Compare("made_at", ">=", 0), Absent("revoked_at"))  # the row of a link that is there
FAILURE = "failure"  # the channel of a signal that raises in the job
ENDED = "S"  # the mark of a child, where nobody asks how it ended
CHUNK = 100  # children whose ends one row keeps: less than 1 KB, so that to mark one costs one write unit


@value(kw_only=True)
class SignalRow:
    """The first answer to a wait for a signal: whoever comes later finds it."""

    payload: str | None  # JSON text; None: nothing came in time
    at: int  # UTC ms
    actor: str | None = None  # who sent it
    channel: str | None = None  # the kind of answer: "link" by a link, FAILURE: ``payload`` is an error; None: a call


@value(kw_only=True)
class LinkRow:
    """A link by which one person may give one answer to a run. Its token is stored as a digest alone, as that of an API key."""

    signal: str  # its name
    payload: str  # JSON text of the answer
    label: str  # for whom it was made
    actor: str  # who made it
    made_at: int  # UTC ms
    expires_at: int  # UTC ms
    revoked_at: int | None = None  # UTC ms; None: it was not revoked
    digest: str = ""  # of its token


class Waits:
    """Signals and ended children. ``retention``: milliseconds for which ended runs stay."""

    def __init__(self, tables: RowTables, *, retention: int) -> None:
        self._tables, self._retention = tables, retention

    def signal(self, ref: RunRef, name: str) -> SignalRow | None:
        """The signal of that name that a run got first, or the note that none came in time; None: neither."""
        row = self._tables.get("signal", RUNS, **_signal_key(ref, name))
        return None if row is None else signal_of_row(row)

    def terms(self, ref: RunRef, name: str) -> WaitTerms | None:
        """The terms of the run's wait for that signal; None: it has none, or the run has not asked for it yet. Raises Unavailable."""
        row = self._tables.get("terms", RUNS, owner=ref.owner, key=f"{beside_prefix(ref)}{BesideKind.WAIT}#{name}")
        return None if row is None else terms_of_row(row)

    def put_signal(
        self,
        ref: RunRef,
        name: str,
        signal: SignalRow,
        audit: AuditEntryRow | None = None,
        *,
        link: LinkRow | None = None,
    ) -> bool:
        """Put it, with the ``audit`` entry of the act, unless the run has one of that name; not by a ``link`` that is revoked.

        Raises Unavailable.
        """
        row = _signal_key(ref, name) | {"payload": signal.payload, "at": signal.at, "ttl": self._expires(signal.at)}
        write = put_new(RUNS, present(row | {"actor": signal.actor, "channel": signal.channel}))
        if audit is None:
            return self._tables.write("put_signal", write)[0]
        key = None if link is None else _link_key(ref, link.digest)
        checks = [] if key is None else [RowWrite(table=RUNS, row=key, only_if=_IS_VALID, kind="check")]
        return transact(self._tables, "put_signal", [write, *checks], f"signal {name!r} of run {ref}", audit)

    def link(self, ref: RunRef, digest: str) -> LinkRow | None:
        """The link of a run whose token has this digest; None: there is none. Raises Unavailable."""
        row = self._tables.get("link", RUNS, **_link_key(ref, digest))
        return None if row is None else link_of_row(row)

    def links(self, ref: RunRef, prefix: str = "") -> Sequence[LinkRow]:
        """The links of a run whose digests begin so. Raises Unavailable."""
        key = _link_key(ref, prefix)
        return [*map(link_of_row, self._tables.rows("links", begins_with(RUNS, key["owner"], key["key"])))]

    def put_link(self, ref: RunRef, link: LinkRow, audit: AuditEntryRow) -> bool:
        """Put a new link, with the ``audit`` entry of the act. Raises Unavailable."""
        row = _link_key(ref, link.digest) | {name: getattr(link, name) for name in (*_LINK, *_LINK_TIMES)}
        put = put_new(RUNS, present(row | {"ttl": self._expires(link.expires_at)}))
        return transact(self._tables, "put_link", [put], f"link of run {ref}", audit)

    def revoke_link(self, ref: RunRef, digest: str, now: int, audit: AuditEntryRow) -> bool:
        """Revoke a link, with the ``audit`` entry of the act; False: it is revoked already, or gone. Raises Unavailable."""
        write = RowWrite(table=RUNS, row=_link_key(ref, digest) | {"revoked_at": now}, only_if=_IS_VALID)
        return transact(self._tables, "revoke_link", [write], f"link of run {ref}", audit)

    def mark_ended(self, parent: RunRef, number: int, now: int, mark: str = ENDED) -> Mapping[int, str]:
        """Note that a child has ended (``number`` from 1). Repeated, it changes nothing. The marks of its hundred, by number."""
        row = _chunk_key(parent, number) | {f"c{number}": mark, "ttl": self._expires(now)}
        _, after = self._tables.write("mark_ended", RowWrite(table=RUNS, row=row), returning=True)
        return _marks(after or row)

    def mark_new(self, parent: RunRef, number: int, now: int, mark: str) -> Mapping[int, str] | None:
        """As ``mark_ended``; None: the child was marked before, perhaps by a process that died after that."""
        row = _chunk_key(parent, number) | {f"c{number}": mark, "ttl": self._expires(now)}
        write = RowWrite(table=RUNS, row=row, only_if=Absent(f"c{number}"))
        is_new, after = self._tables.write("mark_ended", write, returning=True)
        return _marks(after or row) if is_new else None

    def mark_items(self, batch: RunRef, marks: Mapping[int, str], now: int) -> None:
        """Note the ends of items of a batch, by number: a write for each hundred of them."""
        for row in self._chunks(batch, marks, now):
            self._tables.write("mark_items", RowWrite(table=RUNS, row=row))

    def take_over(self, ref: RunRef, marks: Mapping[int, str], original: str, now: int) -> bool:
        """Give a run its first marks, unless it has some; False: these are of another ``original``: the run that it repeats, and how.

        The first hundred have a row even without a mark, so that calls for two originals never mix. Raises Unavailable.
        """
        for row in self._chunks(ref, marks, now, least=[0]):
            put = put_new(RUNS, row | {"original": original})
            is_new, there = self._tables.write("take_over", put)  # refused, it brings the row that is there
            if not is_new and (there or {}).get("original") != original:
                return False
        return True

    def _chunks(self, parent: RunRef, marks: Mapping[int, str], now: int, least: Iterable[int] = ()) -> list[Row]:
        """The rows of these marks; ``least``: hundreds that have a row in any case."""
        chunks: dict[int, dict[str, str]] = {chunk: {} for chunk in least}
        for number, mark in marks.items():
            chunks.setdefault(_chunk(number), {})[f"c{number}"] = mark
        ttl = {"ttl": self._expires(now)}
        return [_chunk_key(parent, chunk * CHUNK + 1) | marked | ttl for chunk, marked in chunks.items()]

    def ended(self, parent: RunRef, numbers: Iterable[int]) -> set[int]:
        """Of these children those that are marked as ended. Raises Unavailable."""
        return set(self.ends(parent, numbers))

    def ends(self, parent: RunRef, numbers: Iterable[int]) -> Mapping[int, str]:
        """The marks of these children, by number, of those that are marked as ended. Raises Unavailable."""
        chunks = defaultdict[tuple[str, str], set[int]](set)
        for number in numbers:
            key = _chunk_key(parent, number)
            chunks[key["owner"], key["key"]].add(number)
        keys = [{"owner": owner, "key": key} for owner, key in chunks]
        rows, unread = self._tables.read("ended", RUNS, keys)
        if unread:
            raise Unavailable(f"the ends of the children of run {parent} could not be read; try again")
        found = [(number, row.get(f"c{number}")) for row in rows for number in chunks[row["owner"], row["key"]]]
        return {number: str(mark) for number, mark in found if mark is not None}

    def prolong(self, beside: RunRef | None, ended: Collection[RunRef], *, until: int) -> None:
        """Keep the rows beside a run, and ended runs with their results, until an instant (UTC ms) and the retention from then on.

        Rows that stay until then by themselves are left as they are. Raises Unavailable.
        """
        rows = (
            []
            if beside is None
            else list(self._tables.rows("beside", begins_with(RUNS, beside.owner, beside_prefix(beside))))
        )
        read, unread = self._tables.read("ended", RUNS, [run_key(ref) for ref in ended])
        results = [result_key(run_ref(row)) for row in read if row.get("result_ref") == BESIDE]
        more, left = self._tables.read("results", RUNS, results) if results else ([], ())
        short = [row for row in (*rows, *read, *more) if row.get("ttl", until) < until // SECOND]
        expiry = (until + self._retention) // SECOND
        writes = [
            RowWrite(table=RUNS, row=RUNS.key_of(row) | {"ttl": expiry}, only_if=Compare("ttl", "<", expiry))
            for row in short
        ]
        answers = self._tables.write_all("prolong", writes) if writes else {}
        if unread or left or len(answers) < len(writes):
            raise Unavailable("what a waiting run has recorded could not be kept for longer; try again")

    def _expires(self, now: int) -> int:
        """Epoch seconds: a run may wait for longer than the retention."""
        return (now + MAX_WAIT + self._retention) // SECOND


def _signal_key(ref: RunRef, name: str) -> Row:
    return {"owner": ref.owner, "key": f"{beside_prefix(ref)}signal#{name}"}


def _chunk_key(parent: RunRef, number: int) -> Row:
    return {"owner": parent.owner, "key": f"{beside_prefix(parent)}ended#{_chunk(number):05d}"}


def _chunk(number: int) -> int:
    return (number - 1) // CHUNK


def chunk_of(number: int, size: int) -> range:
    """The numbers, of 1 to ``size``, whose marks are in one row with that of ``number``."""
    first = _chunk(number) * CHUNK + 1
    return range(first, min(first + CHUNK, size + 1))


def _marks(row: Row) -> dict[int, str]:
    return {int(name[1:]): str(mark) for name, mark in row.items() if name[0] == "c" and name[1:].isdecimal()}


def _link_key(ref: RunRef, digest: str) -> Row:
    return {"owner": ref.owner, "key": f"{beside_prefix(ref)}link#{digest}"}


@reads("link {owner}{key}")
def link_of_row(row: Any) -> LinkRow:
    """A link from its row. Raises Unreadable."""
    found = {name: row[name] for name in _LINK} | {name: int(row[name]) for name in _LINK_TIMES if name in row}
    return LinkRow(**found, digest=row["key"].rpartition("#")[2])


@reads("signal {owner}{key}")
def signal_of_row(row: Any) -> SignalRow:
    """A signal from its row. Raises Unreadable."""
    return SignalRow(payload=row.get("payload"), at=int(row["at"]), actor=row.get("actor"), channel=row.get("channel"))


@reads("wait {owner}{key}")
def terms_of_row(row: Any) -> WaitTerms:
    """The terms of a wait from their row. Raises Unreadable."""
    return terms_of(row["text"])

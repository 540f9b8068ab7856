"""The history's pages: from one batch of the stream to one page for each tenant, book and hour.

Pages are only added. The name of a page follows from its content, so a batch that is delivered again replaces its own pages, and
one that is delivered in other parts adds entries that are there already, which readers merge.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from weakref import WeakKeyDictionary

from quarterjack.domain.history.entry import Book, HistoryEntry
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.times import HOUR, MINUTE
from quarterjack.historian.context import HistorianContext
from quarterjack.ports.services import Services
from quarterjack.state.history.codec import encode
from quarterjack.state.history.entries import placed
from quarterjack.state.history.search import summary_of
from quarterjack.stores.history.books import History
from quarterjack.stores.history.pages import SPAN, PagePut
from quarterjack.values import replace

MOST = 1_000  # entries of a page: 15 to 35 KB
LARGE = 200  # entries of a page from which on its body lies beside its summary
MANY = 500  # entries of one tenant and hour in a batch from which on its pages go to several partitions
TAGS = 5 * MINUTE  # ms for which a process caches the tags of a schedule
_KNOWN = 50_000  # schedules

Tags = Mapping[str, str]
_tags: WeakKeyDictionary[History, dict[tuple[str, str], tuple[int, Tags]]] = (
    WeakKeyDictionary()
)  # with UTC ms of the read


def write_pages(changes: Sequence[RunChange], context: HistorianContext) -> None:
    """Append the entries of a batch to the books. Raises Unavailable: the batch is then delivered again."""
    pages = [
        page
        for book, entries in placed(changes).items()
        for page in pages_of(
            book, tagged(entries, context.services, context.now), context.now, context.services.retention
        )
    ]
    if pages:
        context.services.history.append(pages)


def pages_of(book: Book, entries: Iterable[HistoryEntry], now: int, retention: int) -> Iterator[PagePut]:
    """The pages of entries of any tenants. A page is of one tenant and one hour."""
    in_order = sorted(entries, key=lambda entry: (entry.run.tenant, entry.at))
    for (tenant, _), group in groupby(in_order, key=lambda entry: (entry.run.tenant, entry.at // HOUR)):
        found = list(group)
        for part in _parts(found):
            body = encode(part)
            yield PagePut(
                tenant=tenant,
                book=book,
                first=part[0].at,
                last=part[-1].at,
                written=now // HOUR,
                body=body,
                digest=sha256(f"{tenant}#{book}#".encode() + body).hexdigest()[:12],
                summary=summary_of(part) if len(part) >= LARGE else None,
                spread=len(found) >= MANY,
                expires=max(part[-1].at, now) + retention,
            )


def _parts(entries: Sequence[HistoryEntry]) -> Iterator[list[HistoryEntry]]:
    """Entries in order of their places, in lists that are neither long nor of a long time."""
    part: list[HistoryEntry] = []
    for entry in entries:
        if part and (len(part) >= MOST or entry.at - part[0].at > SPAN):
            yield part
            part = []
        part.append(entry)
    if part:
        yield part


# Tags of schedules.


def tagged(entries: Sequence[HistoryEntry], services: Services, now: int) -> list[HistoryEntry]:
    """The entries also with the tags that their schedules have, as of some minutes ago at the most. Withdrawals need none."""
    names = dict.fromkeys(_schedule_of(entry) for entry in entries if _is_tagged(entry))
    tags = _tags_of(names, services, now) if names else {}
    return [
        replace(entry, tags={**tags[_schedule_of(entry)], **entry.tags})
        if _is_tagged(entry) and tags[_schedule_of(entry)]
        else entry
        for entry in entries
    ]


def _is_tagged(entry: HistoryEntry) -> bool:
    return entry.schedule is not None and not entry.withdrawn


def _schedule_of(entry: HistoryEntry) -> tuple[str, str]:
    return entry.run.tenant, entry.schedule or ""


def _tags_of(names: Collection[tuple[str, str]], services: Services, now: int) -> Mapping[tuple[str, str], Tags]:
    known = _tags.setdefault(services.history, {})
    missing = [name for name in names if name not in known or known[name][0] < now - TAGS]
    if missing:
        heads = {(head.tenant, head.name): head.tags for head in services.schedules.heads(missing)}
        if len(known) + len(missing) > _KNOWN:
            for name in [name for name in known if name not in names]:
                del known[name]
        known.update({name: (now, heads.get(name, {})) for name in missing})
    return {name: known[name][1] for name in names}

"""``ctx.map``: one child for each item, of which at most ``at_a_time`` are unfinished; and the results, read page by page.

    first call          items ─► digest, and a temporary file ─► stored in pages ─► the window begins ─► parks
    called again        items ─► digest ─► compared with the record ─► results

The items are read once in each call, one after the other: neither they nor the results are in memory together.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any, Protocol, overload

from quarterjack.arguments import payload_text
from quarterjack.domain.job import Child
from quarterjack.domain.names import RunRef, check_flag, check_name, check_whole
from quarterjack.domain.payload import size
from quarterjack.errors import Diverged, InvalidInput, Parking, Permanent, QuarterjackError
from quarterjack.state.waits.batch import item_ref
from quarterjack.state.waits.park import MAP, MAX_AT_A_TIME, MAX_WAIT
from quarterjack.state.waits.window import MAX_ITEMS, MOST_BYTES, PAGE, map_ref, map_request
from quarterjack.values import value
from quarterjack.worker.execution.run_store import RunStore
from quarterjack.worker.execution.wait_values import result_of

_IN_MEMORY = 8 * 1024 * 1024  # bytes of items; more lie in a temporary file until they are stored
_CHUNK = 1024 * 1024  # bytes of items that are checked or stored at a time, or one page
_MOST = 20 * PAGE  # the same: number of items
_READ = 25  # results that are read at a time


class JobRequests(Protocol):
    """The requests of the job, in their order: see ``RunWaits``."""

    @property
    def place(self) -> int: ...

    @property
    def is_new(self) -> bool: ...

    def ask(self, request: str) -> bool: ...

    def refused(self, step: str, problem: QuarterjackError) -> None: ...

    def park(self, awaits: str, wake_at: int, reason: str) -> Parking: ...

    def check_payload(self, text: str, field: str) -> None: ...


@value(kw_only=True)
class MapCall:
    """A call of ``ctx.map``, whose arguments are checked."""

    step: str
    job: str
    at_a_time: int
    stops: bool  # at the first failure
    options: Mapping[str, Any]  # as those of ``ctx.submit``

    @classmethod
    def of(
        cls, job: str, options: Mapping[str, Any], *, step: str | None, at_a_time: int, return_exceptions: bool
    ) -> MapCall:
        """Raises InvalidInput."""
        return cls(
            step=job if step is None else check_name(step, "step"),
            job=job,
            at_a_time=check_whole("at_a_time", at_a_time, 1, MAX_AT_A_TIME),
            stops=not check_flag("return_exceptions", return_exceptions),
            options=options,
        )


def map_items(call: MapCall, items: Iterable[Any], waits: JobRequests, parent: RunRef, store: RunStore) -> MapResults:
    """The results of a map that is over; else the run parks. Raises Parking, and as ``Context.map``."""
    with closing(read_items(call, items, waits, store)) as found:
        place, request = waits.place, map_request(call.step, call.job, found.size, found.digest, stops=call.stops)
        known = waits.ask(request)
        results = MapResults(parent, call, found.size, store)
        if not found.size:
            return results
        state = store.map_state(call.step)
        if not known:
            if state is not None:
                before = map_request(call.step, state["job"], state["size"], state["digest"], stops=state["stops"])
                if before != request:  # an earlier slice has begun it, which died before it parked
                    raise Diverged(place, before, request)
            try:
                state = _begun(call, found, store, is_stored=state is not None)
            except QuarterjackError as problem:
                waits.refused(call.step, problem)
                raise
    if state is None:
        raise Permanent(f"the record of map {call.step!r} has left the ledger")
    if not state["is_over"]:
        reason = f"waits for {found.size:,} items of map {call.step!r}, {call.at_a_time:,} at a time"
        raise waits.park(MAP + call.step, store.now() + MAX_WAIT, reason)
    if call.stops and state["first_failed"] is not None:
        (failed,) = _ended([results.child(state["first_failed"] - 1)], store)
        raise failed
    return results


def _begun(call: MapCall, found: ItemFile, store: RunStore, *, is_stored: bool) -> Mapping[str, Any]:
    """Begin the map, or go on with one that has begun; its state. Raises LimitExceeded, Unavailable."""
    for first, texts in () if is_stored else found.chunks():
        store.put_items(call.step, found.digest, first, texts)
    return store.begin_map(
        call.step,
        dict(call.options),
        job=call.job,
        digest=found.digest,
        size=found.size,
        at_a_time=call.at_a_time,
        stops=call.stops,
    )


class ItemFile:
    """The items of one call as JSON texts, one a line. ``close`` removes it."""

    def __init__(self, *, keeps: bool) -> None:
        """``keeps``: whether they can be read again; else they are only counted and digested."""
        self._file = _temporary() if keeps else None
        self._hash = hashlib.sha256()
        self.size = self.bytes = 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()[:16]

    def add(self, text: str) -> None:
        self.size, self.bytes = self.size + 1, self.bytes + size(text)
        self._hash.update(text.encode() + b"\n")
        if self._file is not None:
            self._file.write(text + "\n")

    def chunks(self) -> Iterator[tuple[int, list[str]]]:
        """Whole pages of texts with the number of the first item, about a megabyte at a time."""
        if self._file is None:
            return
        self._file.seek(0)
        first, chunk, length = 1, list[str](), 0
        for line in self._file:
            chunk.append(line[:-1])
            length += len(line)
            if len(chunk) % PAGE == 0 and (length >= _CHUNK or len(chunk) >= _MOST):
                yield first, chunk
                first, chunk, length = first + len(chunk), [], 0
        if chunk:
            yield first, chunk


def _temporary() -> tempfile.SpooledTemporaryFile[str]:
    return tempfile.SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="utf-8", newline="\n")


def read_items(call: MapCall, items: Iterable[Any], waits: JobRequests, store: RunStore) -> ItemFile:
    """Read all items. Those of a map that may have to begin are checked and kept. Raises InvalidInput."""
    found = ItemFile(keeps=waits.is_new)
    with ExitStack() as failing:
        failing.callback(found.close)
        must_fit = waits.is_new and store.check_map(call.job, call.at_a_time, dict(call.options))
        for index, text in enumerate(_texts(items)):
            if index == MAX_ITEMS:
                raise InvalidInput("items", "…", f"has more than {MAX_ITEMS:,} items", "map over parts of them")
            found.add(text)
            if found.bytes > MOST_BYTES:
                problem = f"has more than {MOST_BYTES // 1024**2} MB of JSON"
                raise InvalidInput("items", "…", problem, "store the data, and pass its addresses")
            if waits.is_new:
                waits.check_payload(text, f"items[{index}]")
        for first, texts in found.chunks() if must_fit else ():
            store.check_items(call.job, texts, first - 1)
        failing.pop_all()
    return found


def _texts(items: Iterable[Any]) -> Iterator[str]:
    remedy = "pass a list, or another iterable, of payloads"
    if isinstance(items, (str, bytes, Mapping)):
        raise InvalidInput("items", items, "is one value, not several items", remedy)
    try:
        each = iter(items)
    except TypeError:
        raise InvalidInput("items", items, "is not iterable", remedy) from None
    for index, item in enumerate(each):
        try:
            yield payload_text(item)
        except InvalidInput as problem:
            field = problem.field.replace("payload", f"items[{index}]", 1)
            raise InvalidInput(field, problem.value, problem.problem, problem.remedy) from None


def _ended(children: Sequence[Child], store: RunStore) -> Sequence[Any]:
    """The results of children that have ended; the error in the place of one without success."""
    ends = store.ends([child.run_id for child in children])
    return [result_of(child, ends[child.run_id], return_exceptions=True) for child in children]


class MapResults(Sequence[Any]):
    """The results of a map, in the order of its items, read from their runs 25 at a time. ``list(results)`` has all of them."""

    def __init__(self, parent: RunRef, call: MapCall, size: int, store: RunStore) -> None:
        self._map, self._call, self._size, self._store = map_ref(parent, call.step), call, size, store
        self._first, self._page = 0, list[Any]()  # what was read last

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._size))]
        place = range(self._size)[index]
        if not self._first <= place < self._first + len(self._page):
            self._first = place - place % _READ
            last = min(self._first + _READ, self._size)
            self._page = list(_ended([self.child(each) for each in range(self._first, last)], self._store))
        found = self._page[place - self._first]
        if isinstance(found, Exception) and self._call.stops:
            raise found
        return found

    def __repr__(self) -> str:
        return f"<results of {self._size:,} items of map {self._call.step!r}>"

    def child(self, index: int) -> Child:
        """The run of an item (``index`` from 0)."""
        run_id = str(item_ref(self._map, index + 1))
        return Child(run_id=run_id, step=f"{self._call.step}[{index}]", job=self._call.job)

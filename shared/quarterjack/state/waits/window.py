"""The window of a map: which of its items have a run that has not ended, and which items come next. Pure.

    items in order     ■ ■ ■ ■ □ ■ ■ □ □ · · · · · · · · ·
                       ended ──┴─┴─┴─ open     ▲ cursor: the last item that entered the window

A map has a place of its own in the ledger, whose id follows from its parent and its step: there lie its window, its items and the marks
of their ends, as those of a batch do. The ids of its runs follow from that id and the number of the item.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from typing import Any, Self

from quarterjack.domain.names import RunRef, one_off_ref, parse_run_id
from quarterjack.domain.run import RunRow, RunState
from quarterjack.state.waits.asked import MAPPED
from quarterjack.state.waits.batch import item_ref
from quarterjack.state.waits.park import LETTERS
from quarterjack.values import replace, value

MAX_ITEMS = 100_000
MOST_BYTES = 256 * 1024 * 1024  # of all items of a map, as JSON
PAGE = 25  # items of one row: less than 11 KB, which the end of an item reads to start the next
RECORD = "~window"  # the key of the window's record, among the rows of the map
_ITEMS = "~items~"  # before the digest and the number of a page
_KEY = 32  # characters of the digest in a map's id
_PLACE = re.compile(rf"map-[0-9a-f]{{{_KEY}}}")
_PLAIN = (
    *("step", "job", "digest", "size", "at_a_time", "stops", "options", "queue", "app_version"),
    *("cursor", "failed", "first_failed", "kept_since", "kept_to"),
)


@value(kw_only=True)
class ItemWindow:
    """A map as its record holds it. The first part is fixed when it begins; every change is a write under ``version``."""

    ref: RunRef  # the place of the map: see ``map_ref``
    parent: RunRef  # the run that asked for it
    step: str  # its name among the waits of its parent
    job: str  # of its runs
    digest: str  # of the items
    size: int  # number of items
    at_a_time: int  # items in the window, at the most
    stops: bool = False  # whether nothing more starts after an item that ended without success
    options: str | None = None  # what its runs override of the policies of their job: JSON text
    queue: str | None = None  # name of their declared queue; None: the default one
    app_version: str | None = None  # application version that they are assigned to: their parent's

    cursor: int = 0  # number of the item that entered the window last; 0 before the first
    open: tuple[int, ...] = ()  # numbers of the items in the window, ascending
    let_in: tuple[int, ...] = ()  # for each of these the item whose end let it in; 0: the begin, or a check, did
    failed: int = 0  # items that ended without success
    first_failed: int | None = None  # of these the first in the order of items
    kept_since: int | None = None  # the last pass that keeps ended items for longer: see ``fires.windows.keep``
    kept_to: int = 0  # number of the item that it has come to
    version: int = 0  # of the record; 0 before it is stored

    @property
    def is_stopped(self) -> bool:
        return self.stops and self.failed > 0

    @property
    def room(self) -> int:
        """How many items may enter the window."""
        return 0 if self.is_stopped else min(self.at_a_time - len(self.open), self.size - self.cursor)

    @property
    def is_over(self) -> bool:
        """Whether all its runs have ended, and no more will start."""
        return not self.open and (self.cursor == self.size or self.is_stopped)

    def item(self, number: int) -> RunRef:
        """The run of an item (``number`` from 1)."""
        return item_ref(self.ref, number)

    def counted(self, ends: Mapping[int, str]) -> Self:
        """Without the items that have ended; ``ends``: letters of ends by number, of other items, too."""
        gone = [number for number in self.open if number in ends]
        failed = [number for number in gone if ends[number] != LETTERS[RunState.SUCCEEDED]]
        firsts = [*failed, *(() if self.first_failed is None else (self.first_failed,))]
        return replace(
            self,
            open=tuple(number for number in self.open if number not in ends),
            let_in=tuple(by for number, by in zip(self.open, self.let_in, strict=True) if number not in ends),
            failed=self.failed + len(failed),
            first_failed=min(firsts, default=None),
        )

    def entered(self, by: int = 0) -> Self:
        """With the next items in the window, as far as there is room. ``by``: the item whose end lets them in."""
        cursor = self.cursor + self.room
        new = range(self.cursor + 1, cursor + 1)
        return replace(self, cursor=cursor, open=(*self.open, *new), let_in=(*self.let_in, *(by for _ in new)))

    def let_in_by(self, number: int) -> list[int]:
        """The items in the window that the end of an item let in."""
        return [each for each, by in zip(self.open, self.let_in, strict=True) if by == number]

    def as_body(self) -> dict[str, Any]:
        """JSON-able, without the version, which is the record's; fields without a value are left out."""
        given = {name: getattr(self, name) for name in _PLAIN} | {"parent": str(self.parent)}
        given["open"] = _packed(after - before for before, after in pairwise((0, *self.open)))
        given["let_in"] = _packed(by and number - by for number, by in zip(self.open, self.let_in, strict=True))
        return {name: value for name, value in given.items() if value is not None}

    @classmethod
    def of_body(cls, ref: RunRef, body: Mapping[str, Any], version: int) -> Self:
        """The reverse of ``as_body``; keys of a later release are ignored."""
        known = {name: body[name] for name in _PLAIN if name in body}
        entered = tuple(accumulate(_unpacked(body["open"])))
        by = [back and number - back for number, back in zip(entered, _unpacked(body["let_in"]), strict=True)]
        parent = parse_run_id(body["parent"])
        return cls(**known, ref=ref, parent=parent, open=entered, let_in=tuple(by), version=version)


def _packed(numbers: Iterable[int]) -> str:
    """Small numbers as a short text, so that a window of a hundred items is less than 1 KB."""
    return " ".join(f"{number:x}" for number in numbers)


def _unpacked(text: str) -> list[int]:
    return [int(each, 16) for each in text.split()]


def map_ref(parent: RunRef, step: str) -> RunRef:
    """The place of a map, which follows from its parent and its step."""
    digest = hashlib.sha256(f"{parent}\n{step}".encode()).hexdigest()[:_KEY]
    return one_off_ref(parent.tenant, f"map-{digest}")


def map_of(run: RunRow) -> RunRef | None:
    """The place of the map that a run is an item of; None: it is a child, a task, or an item of a batch."""
    head, _, number = run.ref.owner.partition("/~")[2].rpartition(":")
    if run.parent is None or number != f"{run.child_no:05d}" or _PLACE.fullmatch(head) is None:
        return None
    ref = one_off_ref(run.ref.tenant, head)
    return None if str(ref) == run.parent else ref


def map_request(step: str, job: str, size: int, digest: str, *, stops: bool) -> str:
    """The request for a map, as the record of its parent has it."""
    return f"{MAPPED}{step} of {size} items {digest} by {job}" + (", to the first failure" if stops else "")


def page_key(digest: str, number: int) -> str:
    """The key of the record that has an item (``number`` from 1), among the rows of its map."""
    return f"{_ITEMS}{digest}~{(number - 1) // PAGE:05d}"

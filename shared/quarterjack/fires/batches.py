"""Whether all items of a batch have ended: by their marks, and by a check of the rows of those that nobody has marked.

The end of an item marks it. Only the end that completes the marks of its hundred reads those of the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from quarterjack.domain.run import RunRow
from quarterjack.errors import Unavailable
from quarterjack.ports.services import Clock, Services
from quarterjack.state.waits.batch import item_ref
from quarterjack.state.waits.park import LETTERS
from quarterjack.stores.waits import chunk_of

_PAGE = 100  # rows that a check reads at once; it stops at the first page with an item that has not ended


def ends_of_batch(
    run: RunRow, size: int, services: Services, clock: Clock, *, rows: bool, chunk: Mapping[int, str] | None
) -> Mapping[int, str] | None:
    """The marks of all items, by number; None: some have not ended. Raises Unavailable.

    ``chunk``: the marks of one hundred, as the mark of an item has just left them. ``rows``: read rows of items without a mark.
    """
    if chunk and any(number not in chunk for number in chunk_of(min(chunk), size)):
        return None
    ends = dict(services.waits.ends(run.ref, range(1, size + 1)))
    open_items = [number for number in range(1, size + 1) if number not in ends]
    if not open_items or not rows:
        return None if open_items else ends
    for start in range(0, len(open_items), _PAGE):
        found = _ends_by_rows(run, open_items[start : start + _PAGE], services)
        services.waits.mark_items(run.ref, found, clock())
        ends |= found
        if len(found) < len(open_items[start : start + _PAGE]):
            return None
    return ends


def _ends_by_rows(run: RunRow, numbers: list[int], services: Services) -> dict[int, str]:
    """Of these items those whose rows say that they have ended. The process that ended them died before it marked them."""
    refs = {number: item_ref(run.ref, number) for number in numbers}
    looked = services.ledger.look([*refs.values()])
    if looked.unanswered:
        raise Unavailable(f"the items of batch {run.ref} could not be read; try again")
    rows = {number: looked.found.get(ref) for number, ref in refs.items()}
    return {number: LETTERS[row.state] for number, row in rows.items() if row is not None and row.is_terminal}

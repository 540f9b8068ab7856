"""A job asks for a map: its items are stored, its window begins, and the first of its runs start.

payloads beside and in the bucket ──► pages of items
entries of the first items ──► window, without an item ──► they enter it, are claimed and sent ──► entries removed

A process that dies before the window leaves rows that expire. The job asks again then, and stores them again. If the parent is never
called again, because it was cancelled, the ticker sends the first items, and their workers end them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quarterjack.domain.message import INLINE_PAYLOAD
from quarterjack.domain.names import RunRef
from quarterjack.domain.payload import size
from quarterjack.domain.policies import Overrides
from quarterjack.domain.run import RunRow
from quarterjack.domain.tenants.caller import role
from quarterjack.errors import InvalidInput, Unavailable
from quarterjack.fires.context import FireContext
from quarterjack.fires.windows.advance import item_run, open_window, read_window
from quarterjack.fires.windows.items import BESIDE
from quarterjack.owner.limits import put_payload
from quarterjack.owner.runs.submit import entry_of
from quarterjack.ports.services import Clock, Services
from quarterjack.state.waits.batch import item_ref
from quarterjack.state.waits.park import MAX_WAIT
from quarterjack.state.waits.window import PAGE, ItemWindow, map_ref, page_key
from quarterjack.stores.records import Record
from quarterjack.stores.siblings import INLINE_PAYLOAD as IN_THE_ROW


def check_map(tenant: str, at_a_time: int, services: Services, now: int) -> None:
    """Raises InvalidInput for a map that is wider than the tenant may have, Unavailable."""
    most = services.tenants.governance(tenant, now).limits.waiting_runs
    if most is not None and at_a_time > most:
        problem = f"is more than waiting_runs, the limit of tenant {tenant!r}"
        raise InvalidInput("at_a_time", at_a_time, problem, f"use {most:,} at most")


def put_items(
    parent: RunRow, step: str, digest: str, first: int, payloads: Sequence[str], services: Services, clock: Clock
) -> None:
    """Store items of a map that has not begun, of whole pages but for the last; ``first``: the number of the first of them.

    Raises LimitExceeded, InvalidInput (there is no bucket), Unavailable.
    """
    ref, expires = map_ref(parent.ref, step), clock() + MAX_WAIT + services.retention
    context = FireContext(services=services, clock=clock, caller=role("worker"))
    entries, beside = list[str | Mapping[str, str | bool]](), dict[RunRef, str]()
    for number, text in enumerate(payloads, first):
        length = size(text)
        if length <= IN_THE_ROW:
            entries.append(text)
        elif length <= INLINE_PAYLOAD:
            beside[item_ref(ref, number)] = text
            entries.append(BESIDE)
        else:
            entries.append({"ref": put_payload(parent.ref, text, context)})
    if beside:
        services.siblings.put_payloads(beside, expires=expires)
    pages = range(0, len(entries), PAGE)
    services.records.put_all(
        [
            Record(
                owner=ref.owner,
                key=page_key(digest, first + at),
                version=1,
                body={"items": entries[at : at + PAGE]},
                expires=expires,
            )
            for at in pages
        ]
    )


def begin_map(
    parent: RunRow, step: str, policies: Overrides, services: Services, clock: Clock, **given: Any
) -> ItemWindow:
    """Let the window of a map begin, whose items are stored; or check that of a map that has begun. Its window then.

    A map that has begun has entries for its first items once more: nobody knows whether those of before are there.

    ``policies`` are as ``JobTerms`` gives them; ``given``: further fields of the window. Raises Unavailable.
    """
    window = ItemWindow(ref=map_ref(parent.ref, step), parent=parent.ref, step=step, options=policies.encode(), **given)
    entries = [entry_of(item_run(window, number, {}, clock()), services, clock()) for number in _first(window)]
    if len(services.agenda.put(entries)) < len(entries):
        raise Unavailable(f"the agenda did not accept the first items of map {step!r}; nothing was started, ask again")
    begun = open_window(window, services, clock)
    services.agenda.remove(entries)
    return begun


def _first(window: ItemWindow) -> range:
    return range(1, min(window.size, window.at_a_time) + 1)


def map_window(parent: RunRef, step: str, services: Services) -> ItemWindow | None:
    """The window of a map; None: it has not begun. Raises Unavailable."""
    return read_window(map_ref(parent, step), services)

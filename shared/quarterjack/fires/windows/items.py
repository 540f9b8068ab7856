"""The items of a map: 25 a row, as payloads of their runs.

payload               where it lies until its run starts
up to 400 bytes       in the row of its page
up to 64 KB           beside the row that its run will have: the page says so
more                  in the bucket, in the folder of the parent: the page has its key
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quarterjack.errors import Unavailable
from quarterjack.ports.services import Services
from quarterjack.state.waits.window import PAGE, ItemWindow, page_key

BESIDE = {"beside": True}  # the entry of a payload that lies beside the row of its run


def read_payloads(
    window: ItemWindow, numbers: Sequence[int], services: Services
) -> Mapping[int, Mapping[str, str | bool]]:
    """The fields of the run of each item that say its payload. A page at a time is read. Raises Unavailable."""
    found, pages = dict[int, Mapping[str, str | bool]](), dict[str, list[int]]()
    for number in numbers:
        pages.setdefault(page_key(window.digest, number), []).append(number)
    for key, wanted in pages.items():
        page = services.records.read(window.ref.owner, key)
        if page is None:
            raise Unavailable(f"items of map {window.ref} are not in the ledger: {key}")
        entries = page.body["items"]
        found |= {number: _fields_of(entries[(number - 1) % PAGE]) for number in wanted}
    return found


def _fields_of(entry: str | Mapping[str, str | bool]) -> Mapping[str, str | bool]:
    if isinstance(entry, str):
        return {"payload": entry}
    return {"payload_beside": True} if entry == BESIDE else {"payload_ref": entry["ref"]}

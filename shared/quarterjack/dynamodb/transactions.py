"""Transactions: what is sent, and which items of one were refused. A job's own items go with the writes of its step's record."""

from __future__ import annotations

from collections.abc import Iterable

from quarterjack.aws import BatchBackoff, Client, TransactionRefused
from quarterjack.errors import InvalidInput, Unavailable
from quarterjack.stores.tables import JobItems, table_of_item


def send(client: Client, backoff: BatchBackoff, items: JobItems, about: str) -> frozenset[int]:
    """One transaction: empty, or the places of the items whose conditions do not hold; then nothing is written.

    After a conflict with another write it is sent again. Raises Unavailable, with ``about``, if all attempts meet conflicts.
    """
    for _ in backoff.rounds_with_waits():
        try:
            client.call("transact_write_items", TransactItems=items)
        except TransactionRefused as refused:
            if refused.places:
                return refused.places
        else:
            return frozenset()
    raise Unavailable(f"{about} met other writes again and again; try again")


def check_tables(items: JobItems, own: Iterable[str]) -> None:
    """A job writes to its own tables. Raises InvalidInput."""
    names = set(own)
    for place, item in enumerate(items):
        if table_of_item(item) in names:
            field = f"items[{place}].TableName"
            raise InvalidInput(field, table_of_item(item), "is a table of Quarterjack", "write to tables of your own")

"""Transactions: what is sent, and which items of one were refused. A job's own items go with the writes of its step's record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from quarterjack.aws import BatchBackoff, Client, TransactionRefused
from quarterjack.errors import InvalidInput, Misconfigured, QuarterjackError, Unavailable

Items = Sequence[Mapping[str, Any]]  # as boto3's ``transact_write_items`` takes them


def send(client: Client, backoff: BatchBackoff, items: Items, about: str) -> frozenset[int]:
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


def table_of(item: Mapping[str, Any]) -> str:
    """The name of the table that a job's item writes to; its ARN ends with it."""
    (request,) = item.values()
    return str(request["TableName"]).rpartition("/")[2]


def check_tables(items: Items, own: Iterable[str]) -> None:
    """A job writes to its own tables. Raises InvalidInput."""
    names = set(own)
    for place, item in enumerate(items):
        if table_of(item) in names:
            field = f"items[{place}].TableName"
            raise InvalidInput(field, table_of(item), "is a table of Quarterjack", "write to tables of your own")


def of_job(problem: QuarterjackError, items: Items) -> QuarterjackError:
    """What a job is told of an error that its items caused."""
    tables = ", ".join(sorted(set(map(table_of, items))))
    if isinstance(problem, Misconfigured):
        return Misconfigured(
            f"{problem} (the items write to {tables}: these must be in the account and region of Quarterjack's tables, and "
            "the worker's role must allow PutItem, UpdateItem, DeleteItem and ConditionCheckItem on them)"
        )
    if type(problem) is QuarterjackError:  # refused as it is
        return InvalidInput("items", tables, str(problem), "pass what boto3's client takes as TransactItems")
    return problem

"""Rows in DynamoDB's JSON and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from quarterjack.state.transition import Value

Item = dict[str, dict[str, Any]]


def encode(value: Value) -> dict[str, Any]:
    """A value in DynamoDB's JSON."""
    kind = type(value)
    if kind is int:
        return {"N": str(value)}
    if kind is str:
        return {"S": value}
    if kind is bytes:
        return {"B": value}
    return {"BOOL": value} if kind is bool else {"S": str(value)}


def encode_all(values: Iterable[Value]) -> list[dict[str, Any]]:
    """Values in DynamoDB's JSON. Most are text and numbers, for which it takes no call."""
    return [
        {"S": value} if type(value) is str else {"N": str(value)} if type(value) is int else encode(value)
        for value in values
    ]


def to_item(row: Mapping[str, Value]) -> Item:
    return dict(zip(row, encode_all(row.values()), strict=True))


def to_row(item: Mapping[str, Mapping[str, Any]]) -> dict[str, Value]:
    """The reverse of ``to_item``."""
    try:
        return {
            name: int(value) if kind == "N" else value
            for name, attribute in item.items()
            for ((kind, value),) in (attribute.items(),)  # an assignment, which takes less than a loop
        }
    except ValueError:
        return {name: _foreign(attribute) for name, attribute in item.items()}


def _foreign(attribute: Mapping[str, Any]) -> Any:
    """Quarterjack's numbers are whole. Another number, of a later release, stays text, so that the rest of its row can be read."""
    ((kind, value),) = attribute.items()
    return int(value) if kind == "N" and value.removeprefix("-").isdecimal() else value

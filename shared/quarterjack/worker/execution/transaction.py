"""The items of ``ctx.transaction``: checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quarterjack.errors import InvalidInput, ItemRefused

Items = Sequence[Mapping[str, Any]]

MOST = 98  # items: DynamoDB takes 100, and two are ours
LARGEST = 4 * 1024 * 1024 - 128 * 1024  # bytes: DynamoDB takes 4 MB; the rest is for ours
_ACTIONS = ("Put", "Update", "Delete", "ConditionCheck")
_SUBJECTS = {"Put": "Item"}  # of the others: Key
_TYPES = frozenset({"S", "N", "B", "SS", "NS", "BS", "M", "L", "NULL", "BOOL"})
_FORM = "pass boto3's form, e.g. {'Put': {'TableName': 'orders', 'Item': {'id': {'S': 'o-17'}}}}"


def checked_items(items: Any) -> list[Mapping[str, Any]]:
    """The items as a list. Raises InvalidInput, which names the item."""
    if not isinstance(items, (list, tuple)) or not items:
        raise InvalidInput("items", items, "is not a list of items", _FORM)
    if len(items) > MOST:
        remedy = f"pass at most {MOST} a transaction, each transaction with a step of its own"
        raise InvalidInput("items", f"{len(items)} items", f"is more than {MOST}", remedy)
    for place, item in enumerate(items):
        _check(f"items[{place}]", item)
    size = sum(map(_size, items))
    if size > LARGEST:
        remedy = f"keep them within {LARGEST:,}, or use several transactions"
        raise InvalidInput("items", f"{len(items)} items", f"has {size:,} bytes", remedy)
    return list(items)


def _check(field: str, item: Any) -> None:
    if not isinstance(item, Mapping) or len(item) != 1 or next(iter(item)) not in _ACTIONS:
        raise InvalidInput(field, item, f"is not one of {', '.join(_ACTIONS)}", _FORM)
    ((action, request),) = item.items()
    where = f"{field}.{action}"
    if not isinstance(request, Mapping) or not isinstance(request.get("TableName"), str):
        raise InvalidInput(where, request, "names no table", _FORM)
    subject = _SUBJECTS.get(action, "Key")
    attributes = request.get(subject)
    if not isinstance(attributes, Mapping) or not attributes:
        raise InvalidInput(where, request, f"has no {subject}", _FORM)
    _check_values(f"{where}.{subject}", attributes)
    _check_values(f"{where}.ExpressionAttributeValues", request.get("ExpressionAttributeValues", {}))


def _check_values(where: str, values: Any) -> None:
    """Each value says its type, as boto3's client wants it."""
    for name, value in values.items() if isinstance(values, Mapping) else [("", values)]:
        if not isinstance(value, Mapping) or len(value) != 1 or next(iter(value)) not in _TYPES:
            remedy = "write {'S': 'text'}, {'N': '7'} …, or use boto3.dynamodb.types.TypeSerializer().serialize(value)"
            raise InvalidInput(f"{where}[{name!r}]", value, "does not say its type", remedy)


def _size(value: Any) -> int:
    """Bytes, about as DynamoDB counts them."""
    if isinstance(value, Mapping):
        return sum(len(str(key)) + _size(each) for key, each in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return sum(map(_size, value))
    if isinstance(value, (bytes, bytearray)):
        return len(value)
    return len(str(value).encode("utf-8", "replace"))


def item_refused(place: int, items: Items) -> ItemRefused:
    ((action, request),) = items[place].items()
    return ItemRefused(place, action, str(request["TableName"]))

"""Tables of jobs: a client of boto3 in a dict, as far as tests of ``ctx.transaction`` need one; and real ones."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from botocore.exceptions import ClientError

TABLE = "orders"
NEW = "attribute_not_exists(id)"


def put(key: str, *, table: str = TABLE, new: bool = False, **more: str) -> dict[str, Any]:
    """An item with texts; ``new``: refused where the key exists."""
    item = {name: {"S": value} for name, value in {"id": key, **more}.items()}
    return {"Put": {"TableName": table, "Item": item, **({"ConditionExpression": NEW} if new else {})}}


class DictClient:
    """Puts, with or without the condition that the key is new."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.written: list[str] = []  # keys, as often as they were written

    def transact_write_items(self, *, TransactItems: Sequence[dict[str, Any]]) -> None:  # noqa: N803 (boto3's name)
        requests = [item["Put"] for item in TransactItems]
        refused = ["ConditionExpression" in r and r["Item"]["id"]["S"] in self.stored for r in requests]
        if any(refused):
            reasons = [{"Code": "ConditionalCheckFailed" if each else "None"} for each in refused]
            answer: Any = {"Error": {"Code": "TransactionCanceledException", "Message": ""}}
            raise ClientError(answer | {"CancellationReasons": reasons}, "TransactWriteItems")
        for request in requests:
            self.stored[request["Item"]["id"]["S"]] = request["Item"]
            self.written.append(request["Item"]["id"]["S"])


def make_table(client: Any) -> str:
    """A table with the text key ``id``; its name."""
    name = f"own-{uuid.uuid4().hex[:12]}"
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
    )
    return name


def items_of(client: Any, table: str) -> list[dict[str, Any]]:
    """All items, by their key."""
    found = client.scan(TableName=table, ConsistentRead=True)["Items"]
    return sorted(found, key=lambda item: str(item["id"]["S"]))

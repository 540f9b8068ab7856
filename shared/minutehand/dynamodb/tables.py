"""The tables as data: the CDK stack, the local cloud, ``doctor`` and the tests create and check them by these definitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TableDefinition:
    """A DynamoDB table, on demand."""

    suffix: str  # its name is `<prefix>-<suffix>`
    hash_key: str  # attribute, a string
    range_key: str  # attribute
    range_type: str = "S"  # S or N
    ttl: str | None = None  # attribute with the expiry in epoch seconds

    def create_arguments(self, name: str) -> dict[str, Any]:
        """The arguments of ``create_table``."""
        return {
            "TableName": name,
            "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [
                {"AttributeName": self.hash_key, "KeyType": "HASH"},
                {"AttributeName": self.range_key, "KeyType": "RANGE"},
            ],
            "AttributeDefinitions": [
                {"AttributeName": self.hash_key, "AttributeType": "S"},
                {"AttributeName": self.range_key, "AttributeType": self.range_type},
            ],
        }


SCHEDULES = TableDefinition(suffix="schedules", hash_key="tenant", range_key="name")
REVISIONS = TableDefinition(suffix="revisions", hash_key="owner", range_key="number", range_type="N")
AGENDA = TableDefinition(suffix="agenda", hash_key="shard", range_key="entry")
RUNS = TableDefinition(suffix="runs", hash_key="owner", range_key="key", ttl="ttl")
TABLES = (SCHEDULES, REVISIONS, AGENDA, RUNS)

"""The tables as data: the CDK stack, the local cloud and the tests create them from these very definitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pynamodb.attributes import TTLAttribute
from pynamodb.models import Model

from minutehand.dynamodb.models import EntryItem, HeadItem, RevisionItem, RunItem


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


def _table(suffix: str, model: type[Model]) -> TableDefinition:
    """A table with the keys and the expiry of a model."""
    attributes = model.get_attributes().values()
    hash_key = next(a for a in attributes if a.is_hash_key)
    range_key = next(a for a in attributes if a.is_range_key)
    expiry = next((a.attr_name for a in attributes if isinstance(a, TTLAttribute)), None)
    return TableDefinition(
        suffix=suffix,
        hash_key=hash_key.attr_name,
        range_key=range_key.attr_name,
        range_type=range_key.attr_type,
        ttl=expiry,
    )


SCHEDULES = _table("schedules", HeadItem)
REVISIONS = _table("revisions", RevisionItem)
AGENDA = _table("agenda", EntryItem)
RUNS = _table("runs", RunItem)
TABLES = (SCHEDULES, REVISIONS, AGENDA, RUNS)

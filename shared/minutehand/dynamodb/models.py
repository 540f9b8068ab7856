"""The tables as PynamoDB models: they define the keys (``definitions`` reads them), and the control plane reads and writes by them."""

from __future__ import annotations

from typing import Any, TypeVar

from pynamodb.attributes import NumberAttribute, TTLAttribute, UnicodeAttribute
from pynamodb.models import Model

from minutehand.settings import Settings

_M = TypeVar("_M", bound=Model)


class HeadItem(Model):
    """A schedule's head."""

    tenant = UnicodeAttribute(hash_key=True)
    name = UnicodeAttribute(range_key=True)
    state = UnicodeAttribute()
    revision = NumberAttribute()
    version = NumberAttribute()
    job = UnicodeAttribute()
    expression = UnicodeAttribute()
    timezone = UnicodeAttribute()
    description = UnicodeAttribute(null=True)
    tags = UnicodeAttribute(null=True)  # JSON text
    note = UnicodeAttribute(null=True)
    resume_at = NumberAttribute(null=True)
    managed_by = UnicodeAttribute(null=True)
    failing = NumberAttribute(null=True)
    failed_at = NumberAttribute(null=True)
    failed_run = UnicodeAttribute(null=True)
    incident = UnicodeAttribute(null=True)
    created_at = NumberAttribute()
    updated_at = NumberAttribute()


class RevisionItem(Model):
    """One immutable definition."""

    owner = UnicodeAttribute(hash_key=True)
    number = NumberAttribute(range_key=True)
    shard = NumberAttribute()
    job = UnicodeAttribute()
    rule = UnicodeAttribute()  # JSON text
    payload = UnicodeAttribute(null=True)  # JSON text
    payload_ref = UnicodeAttribute(null=True)
    overrides = UnicodeAttribute(null=True)  # JSON text
    options = UnicodeAttribute(null=True)  # JSON text
    failing = NumberAttribute(null=True)
    active_from = NumberAttribute()
    anchor = NumberAttribute(null=True)
    active_until = NumberAttribute(null=True)
    closed_by = UnicodeAttribute(null=True)
    v = NumberAttribute(null=True)  # schema, where an older release must leave it alone


class EntryItem(Model):
    """An agenda entry, as the arming transaction puts it."""

    shard = UnicodeAttribute(hash_key=True)
    entry = UnicodeAttribute(range_key=True)
    after = NumberAttribute()


class RunItem(Model):
    """A run's row or one of its siblings. The hot path writes it by boto3 in batches; ``rows`` names its attributes."""

    owner = UnicodeAttribute(hash_key=True)
    key = UnicodeAttribute(range_key=True)
    ttl = TTLAttribute(null=True)


class RecordItem(Model):
    """A client token's record among the runs, as the transaction of its call puts it; see ``records``."""

    owner = UnicodeAttribute(hash_key=True)
    key = UnicodeAttribute(range_key=True)
    version = NumberAttribute()
    body = UnicodeAttribute()  # JSON text
    ttl = NumberAttribute(null=True)  # UTC seconds


def bound(model: type[_M], suffix: str, settings: Settings) -> type[_M]:
    """The model for one table of one stack: PynamoDB keeps name and endpoint in the class."""
    meta: dict[str, Any] = {
        "table_name": settings.table(suffix),
        "host": settings.endpoint,
        "region": settings.region,
        "max_retry_attempts": 4,
        "connect_timeout_seconds": 3,
        "read_timeout_seconds": 10,
    }
    return type(model.__name__, (model,), {"Meta": type("Meta", (), meta)})

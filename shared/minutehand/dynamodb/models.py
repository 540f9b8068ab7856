"""The rows of the control plane as PynamoDB models, and the connection that sends their requests.

PynamoDB makes the expressions; ``Client`` sends the requests. So timeouts, endpoint, credentials, retries with one ClientRequestToken
and errors are the same as for every other request, and PynamoDB makes no botocore client.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Self, TypeVar

from botocore import xform_name
from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.connection import Connection
from pynamodb.expressions.condition import Condition as PynamoCondition
from pynamodb.expressions.update import Action
from pynamodb.models import Model
from pynamodb.transactions import TransactWrite

from minutehand.aws import BatchBackoff, Client, TransactionRefused
from minutehand.dynamodb.rows import to_row
from minutehand.errors import Unavailable
from minutehand.settings import Settings
from minutehand.state.transition import OPERATORS, Absent, AllOf, AnyOf, Compare, Condition, OneOf


class ControlModel(Model):
    """A row as it is stored: with attributes of a later release, and without type checks, so that one bad row spoils no page."""

    @classmethod
    def from_raw_data(cls, data: dict[str, Any]) -> Self:
        item = cls()
        item.attribute_values = to_row(data)
        return item

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """The item that names these attributes."""
        return cls(**row)

    def changes(self) -> list[Action]:
        """The actions that set this row's attributes and remove those that are None. All other stored attributes stay."""
        kinds = self.get_attributes()
        return [
            kinds[name].remove() if value is None else kinds[name].set(value)
            for name, value in self.attribute_values.items()
            if not (kinds[name].is_hash_key or kinds[name].is_range_key)
        ]

    @classmethod
    def condition(cls, clause: Condition) -> PynamoCondition:
        """A clause about such a row."""
        kinds = cls.get_attributes()
        match clause:
            case Compare(name, symbol, value):
                compared: PynamoCondition = OPERATORS[symbol](kinds[name], value)
                return compared
            case OneOf(name, values):
                return kinds[name].is_in(*values)
            case Absent(name):
                return kinds[name].does_not_exist()
            case AllOf(parts):
                return reduce(operator.and_, map(cls.condition, parts))
            case AnyOf(parts):
                return reduce(operator.or_, map(cls.condition, parts))


_M = TypeVar("_M", bound=ControlModel)


class HeadItem(ControlModel):
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


class RevisionItem(ControlModel):
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


class FreezeItem(ControlModel):
    """A tenant's freeze, among the revisions."""

    owner = UnicodeAttribute(hash_key=True)
    number = NumberAttribute(range_key=True)
    until = NumberAttribute()
    note = UnicodeAttribute(null=True)
    created_at = NumberAttribute()


class EntryItem(ControlModel):
    """An agenda entry, as a transaction of the control plane puts it; ``rows`` makes the row."""

    shard = UnicodeAttribute(hash_key=True)
    entry = UnicodeAttribute(range_key=True)
    after = NumberAttribute(null=True)
    created_at = NumberAttribute(null=True)
    queue = UnicodeAttribute(null=True)


class RecordItem(ControlModel):
    """A record among the runs; see ``records``."""

    owner = UnicodeAttribute(hash_key=True)
    key = UnicodeAttribute(range_key=True)
    version = NumberAttribute()
    body = UnicodeAttribute()  # JSON text
    ttl = NumberAttribute(null=True)  # UTC seconds


class DeadItem(ControlModel):
    """A line of the index of dead runs, in the table of runs; see ``dead_index``."""

    owner = UnicodeAttribute(hash_key=True)
    key = UnicodeAttribute(range_key=True)
    job = UnicodeAttribute()
    schedule = UnicodeAttribute(null=True)
    fence = NumberAttribute()
    attempt = NumberAttribute()
    reason = UnicodeAttribute()
    state = UnicodeAttribute(null=True)
    error_type = UnicodeAttribute(null=True)
    error = UnicodeAttribute(null=True)
    redriven_as = UnicodeAttribute(null=True)
    ttl = NumberAttribute()  # UTC seconds


class ClientConnection(Connection):
    """Sends PynamoDB's requests over a ``Client``. A refused write of one item returns the row that refused it."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._sender = client

    def dispatch(self, operation_name: str, operation_kwargs: dict[str, Any]) -> dict[str, Any]:
        if "ConditionExpression" in operation_kwargs:
            operation_kwargs["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        return self._sender.call(xform_name(operation_name), **operation_kwargs)


class Models:
    """The models of one installation's tables. Errors are those of ``Client.call``."""

    def __init__(self, client: Client, settings: Settings, *, backoff: BatchBackoff) -> None:
        self._backoff, self._settings = backoff, settings
        self._connection = ClientConnection(client)
        self._tables: set[str] = set()
        self.heads = self._bound(HeadItem, "schedules")
        self.revisions = self._bound(RevisionItem, "revisions")
        self.freezes = self._bound(FreezeItem, "revisions")
        self.entries = self._bound(EntryItem, "agenda")
        self.records = self._bound(RecordItem, "runs")
        self.dead = self._bound(DeadItem, "runs")

    def _bound(self, model: type[_M], suffix: str) -> type[_M]:
        """The model for one table: PynamoDB keeps the table's name and the connection in the class."""
        name = self._settings.table(suffix)
        bound: type[_M] = type(model.__name__, (model,), {"Meta": type("Meta", (), {"table_name": name})})
        table = bound._get_connection()  # noqa: SLF001 (PynamoDB has no public way to give a model its connection)
        if name not in self._tables:
            self._connection.add_meta_table(table.get_meta_table())
            self._tables.add(name)
        table.connection = self._connection
        return bound

    def read(self, model: type[_M], hash_key: str, range_key: str | int) -> Mapping[str, Any] | None:
        """One row, read strongly; None if there is none."""
        try:
            return model.get(hash_key, range_key, consistent_read=True).attribute_values
        except model.DoesNotExist:
            return None

    def update(self, item: ControlModel, condition: PynamoCondition | None = None, *more: Action) -> None:
        """Write the ``changes`` of an item, and ``more`` actions. Raises ConditionFailed.

        ``Model.update`` would request the whole row back.
        """
        actions = [*item.changes(), *more]
        request = item.get_update_kwargs_from_instance(actions=actions, condition=condition)
        self._connection.dispatch("UpdateItem", request)

    def transact(self, write: Callable[[TransactWrite], None], about: str) -> bool:
        """One transaction; False, and nothing is written, if one of its conditions does not hold.

        After a conflict with another write it is sent again. Raises Unavailable if all attempts meet conflicts.
        """
        for _ in self._backoff.rounds_with_waits():
            try:
                with TransactWrite(connection=self._connection) as transaction:
                    write(transaction)
                return True
            except TransactionRefused as refused:
                if refused.by_condition:
                    return False
        raise Unavailable(f"the change of {about} met other writes again and again; try again")

    def rewrite(self, transaction: TransactWrite, item: ControlModel, condition: PynamoCondition | None = None) -> None:
        """``update`` as a part of a transaction."""
        transaction.update(item, actions=item.changes(), condition=condition)

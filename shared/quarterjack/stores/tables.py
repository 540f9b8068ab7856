"""The tables as data, and what the stores ask of them: reads and writes of rows, also as data.

The CDK stack, the local cloud, ``doctor`` and the tests create and check the tables by these definitions. ``dynamo_tables`` and
``testing.memory.tables`` carry the reads and writes out. Their ``verb`` names a request for the hooks of tests; it never leaves the
process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from quarterjack.state.transition import Absent, Change, Condition
from quarterjack.stores.paging import OnRead
from quarterjack.values import replace, value

STREAM = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}


@dataclass(frozen=True, kw_only=True, eq=False)
class TableDefinition:
    """A DynamoDB table, on demand."""

    suffix: str  # its name is `<prefix>-<suffix>`
    hash_key: str  # attribute, a string
    range_key: str  # attribute
    range_type: str = "S"  # S or N
    ttl: str | None = None  # attribute with the expiry in epoch seconds
    stream: bool = False  # its changes are streamed, with both images, where the history is on

    def key_of(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The key's attributes of a row."""
        return {self.hash_key: row[self.hash_key], self.range_key: row[self.range_key]}

    def create_arguments(self, name: str, *, history: bool = True) -> dict[str, Any]:
        """The arguments of ``create_table``; without ``history`` there is no stream."""
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
            **({"StreamSpecification": STREAM} if self.stream and history else {}),
        }


SCHEDULES = TableDefinition(suffix="schedules", hash_key="tenant", range_key="name")
REVISIONS = TableDefinition(suffix="revisions", hash_key="owner", range_key="number", range_type="N")
AGENDA = TableDefinition(suffix="agenda", hash_key="shard", range_key="entry")
RUNS = TableDefinition(suffix="runs", hash_key="owner", range_key="key", ttl="ttl", stream=True)
HISTORY = TableDefinition(suffix="history", hash_key="partition", range_key="key", ttl="ttl")
AUDIT = TableDefinition(suffix="audit", hash_key="partition", range_key="key")
TENANTS = TableDefinition(suffix="tenants", hash_key="tenant", range_key="item")
TABLES = (SCHEDULES, REVISIONS, AGENDA, RUNS, HISTORY, AUDIT, TENANTS)

Row = dict[str, Any]  # attributes by name
TableRow = tuple[TableDefinition, Row]  # a row, or its key, of one of several tables
Answer = tuple[bool, Row | None]  # of a write: whether it was applied; and the row as it is now, as far as it is known


JobItems = Sequence[Mapping[str, Any]]  # writes to a job's own tables, as boto3's ``transact_write_items`` takes them


@value(kw_only=True)
class RowWrite:
    """One write of one row.

    A "put" replaces the row. An "update" changes the attributes that it names: None removes one, all others stay. A "check" is a
    condition of a transaction.
    """

    table: TableDefinition
    row: Mapping[str, Change]  # its key, and the attributes to write
    only_if: Condition | None = None  # what the stored row must meet; a row that does not exist has no attributes
    kind: Literal["put", "update", "delete", "check"] = "update"

    @property
    def key(self) -> Row:
        return self.table.key_of(self.row)


def table_of_item(item: Mapping[str, Any]) -> str:
    """The name of the table that a job's item writes to; its ARN ends with it."""
    (request,) = item.values()
    return str(request["TableName"]).rpartition("/")[2]


def put_new(table: TableDefinition, row: Mapping[str, Change]) -> RowWrite:
    """A put that is refused where the key exists."""
    return RowWrite(table=table, row=row, only_if=Absent(table.hash_key), kind="put")


@value(kw_only=True)
class RowQuery:
    """The rows of one partition with range keys in ``[first, last]``."""

    table: TableDefinition
    partition: str
    first: str | int
    last: str | int
    only: Condition | None = None  # rows that do not meet it are read and left out
    newest_first: bool = False  # in descending order
    limit: int | None = None  # rows that one request reads; None: as many as fit
    after: str | int | None = None  # the range key beyond which to begin
    eventual: bool = False  # may miss what was written within the last second, at half the cost
    on_read: OnRead | None = None  # gets the read units of each request


@value(kw_only=True)
class ScanPart:
    """A page of one part of a table: of the ``number``-th (from 0) of so many ``parts``."""

    number: int
    parts: int
    after: Row | None = None  # the key beyond which to begin


def begins_with(table: TableDefinition, partition: str, prefix: str, **how: Any) -> RowQuery:
    """The rows whose range keys begin so; ``how`` are further fields of the query."""
    first, last = (
        prefix or " ",
        prefix + "\U0010ffff",
    )  # DynamoDB takes no empty text; the last character sorts after all others
    return RowQuery(table=table, partition=partition, first=first, last=last, **how)


class RowTables(ABC):
    """The tables of one installation, as one process sees them. Reads are strong, but ``eventual`` queries. Raises errors of ``ports``."""

    def rows(self, verb: str, query: RowQuery) -> Iterator[Row]:
        """The rows of a query, page by page as they are asked for."""
        while True:
            rows, last = self.page(verb, query)
            yield from rows
            if last is None:
                return
            query = replace(query, after=last)

    @abstractmethod
    def page(self, verb: str, query: RowQuery) -> tuple[list[Row], Any]:
        """One request: the rows, and the range key after which the next page begins (None: there is none)."""

    def first_pages(self, verb: str, queries: Sequence[RowQuery]) -> list[tuple[list[Row], Any]]:
        """The first page of each query of one table; an engine may ask for them at the same time."""
        return [self.page(verb, query) for query in queries]

    @abstractmethod
    def scan(
        self, verb: str, table: TableDefinition, *, only: Condition | None = None, part: tuple[int, int] | None = None
    ) -> Iterator[Row]:
        """All rows of a table that meet ``only``; or the n-th of m parts (n from 0), read with eventual consistency."""

    @abstractmethod
    def scan_parts(
        self,
        verb: str,
        table: TableDefinition,
        parts: Sequence[ScanPart],
        *,
        only: Condition | None,
        limit: int,
        eventual: bool = False,
    ) -> list[tuple[list[Row], Row | None]]:
        """A page of each part, read side by side: the rows that meet ``only``, of at most ``limit`` that are read, and the key beyond
        which the part goes on; None at its end. ``only`` may be about the key. ``eventual`` halves the price and may miss the last second.
        """

    @abstractmethod
    def get(self, verb: str, table: TableDefinition, **key: str | int) -> Row | None:
        """A row by its key."""

    def read(self, verb: str, table: TableDefinition, keys: Sequence[Row]) -> tuple[list[Row], list[Row]]:
        """Rows by their keys, each named once, in batches: those found, and the keys that were not answered."""
        found, unread = self.read_across(verb, [(table, key) for key in keys])
        return [row for _, row in found], [key for _, key in unread]

    @abstractmethod
    def read_across(self, verb: str, keys: Sequence[TableRow]) -> tuple[list[TableRow], list[TableRow]]:
        """As ``read``, of several tables in the same batches. One that does not answer leaves all keys of its batch unanswered."""

    @abstractmethod
    def write(self, verb: str, write: RowWrite, *, returning: bool = False) -> Answer:
        """One conditional write; ``returning`` the row after an update."""

    @abstractmethod
    def copy(self, verb: str, table: TableDefinition, key: Row, marks: Row) -> None:
        """Put a row as it is stored, attributes of later releases included, with ``marks``, which may have another key."""

    @abstractmethod
    def write_all(
        self, verb: str, writes: Sequence[RowWrite], *, returning: Collection[int] = (), pooled: bool = False
    ) -> Mapping[int, Answer]:
        """Conditional puts and updates of one table in batches, by index; an index that is absent was not answered.

        An applied one brings its row if its index is in ``returning``, where the engine does so. One batch after the other, unless
        ``pooled``. Raises TypeError for a write that PartiQL cannot express.
        """

    @abstractmethod
    def store(self, verb: str, writes: Sequence[RowWrite]) -> frozenset[str]:
        """Unconditional puts and deletes in batches: the range keys that were accepted."""

    @abstractmethod
    def store_all(self, verb: str, writes: Sequence[RowWrite]) -> Sequence[RowWrite]:
        """Unconditional puts and deletes of one table, each of another row, in batches: those that were not accepted."""

    def transact(self, verb: str, writes: Sequence[RowWrite], about: str) -> bool:
        """One transaction; False, and nothing is written, if one of its conditions does not hold.

        After a conflict with another write it is sent again. Raises Unavailable, with ``about``, if all attempts meet conflicts.
        """
        return not self.commit(verb, writes, (), about)

    @abstractmethod
    def commit(
        self, verb: str, writes: Sequence[RowWrite], items: Sequence[Mapping[str, Any]], about: str
    ) -> frozenset[int]:
        """As ``transact``, with a job's own ``items`` after the writes: the places whose conditions do not hold; empty: it is written.

        Items are as boto3's ``transact_write_items`` takes them. Raises InvalidInput for one of a table of Quarterjack's.
        """

"""What owners change of schedules, in DynamoDB by PynamoDB: one transaction each, conditional on the head not having moved.

So an active schedule without its entry in the agenda cannot exist, nor a revision that no head knows of.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.connection import Connection
from pynamodb.exceptions import PynamoDBException
from pynamodb.expressions.update import Action
from pynamodb.transactions import TransactWrite

from minutehand.aws import Backoff, TransactionRefused, translated
from minutehand.domain.agenda_entry import AgendaEntry
from minutehand.domain.schedule import ClosedBy, Head, Revision
from minutehand.dynamodb.models import EntryItem, HeadItem, RecordItem, RevisionItem, bound
from minutehand.dynamodb.records import record_row
from minutehand.dynamodb.rows import shard_key
from minutehand.errors import Unavailable
from minutehand.ports.records import Record
from minutehand.settings import Settings

_T = TypeVar("_T")


class Control:
    """The transactions of ``flow.ports.Schedules``."""

    def __init__(self, settings: Settings, *, backoff: Backoff) -> None:
        self._backoff = backoff
        self._heads = bound(HeadItem, "schedules", settings)
        self._revisions = bound(RevisionItem, "revisions", settings)
        self._entries = bound(EntryItem, "agenda", settings)
        self._records = bound(RecordItem, "runs", settings)
        self._connection = Connection(region=settings.region, host=settings.endpoint)

    def arm(
        self,
        head: Head,
        *,
        expected: int,
        previous: Revision | None,
        revision: Revision,
        entry: AgendaEntry | None,
        expect: AgendaEntry | None = None,
        token: Record | None = None,
    ) -> bool:
        entries = [self._entry_item(one) for one in (entry, expect) if one is not None]

        def write(transaction: TransactWrite) -> None:
            self._put(transaction, head, expected)
            transaction.save(self._revision_item(revision), condition=self._revisions.owner.does_not_exist())
            if previous is not None:
                self._close(transaction, previous)
            for item in entries:
                transaction.save(item)
            self._remember(transaction, token)

        return self._transact(write)

    def close(
        self,
        head: Head,
        *,
        expected: int,
        revision: Revision | None,
        entry: AgendaEntry | None = None,
        token: Record | None = None,
    ) -> bool:
        def write(transaction: TransactWrite) -> None:
            self._put(transaction, head, expected)
            if revision is not None:
                self._close(transaction, revision)
            if entry is not None:
                transaction.save(self._entry_item(entry))
            self._remember(transaction, token)

        return self._transact(write)

    def _transact(self, write: Callable[[TransactWrite], None]) -> bool:
        def run() -> None:
            with TransactWrite(connection=self._connection) as transaction:
                write(transaction)

        for _ in self._backoff.rounds_with_waits():
            try:
                _call(run)
                return True
            except TransactionRefused as refused:
                if refused.by_condition:
                    return False  # otherwise it met another transaction: again, and the conditions decide
        return False

    def _close(self, transaction: TransactWrite, revision: Revision) -> None:
        model = self._revisions
        open_ = model.active_until.does_not_exist()
        draining = model.closed_by == str(ClosedBy.DRAINED)
        transaction.update(
            model(revision.owner, revision.number),
            actions=[
                model.active_until.set(revision.active_until or 0),
                model.closed_by.set(str(revision.closed_by)),
            ],
            condition=open_ | draining,
        )

    def _remember(self, transaction: TransactWrite, token: Record | None) -> None:
        """Put a client token's record; its version is conditional as in ``Records.write``."""
        if token is not None:
            model, before = self._records, token.version - 1
            transaction.save(
                model(**record_row(token)),
                condition=model.version == before if before else model.version.does_not_exist(),
            )

    def _put(self, transaction: TransactWrite, head: Head, expected: int) -> None:
        """Write a head over the version that was read. What a later release has noted on it stays."""
        item, condition = self._head_item(head), self._head_is(expected)
        if not expected:
            transaction.save(item, condition=condition)
            return
        written = {name: (kind, getattr(item, name)) for name, kind in self._heads.get_attributes().items()}
        actions: list[Action] = [
            kind.remove() if value is None else kind.set(value)
            for name, (kind, value) in written.items()
            if not (kind.is_hash_key or kind.is_range_key)
        ]
        transaction.update(self._heads(head.tenant, head.name), actions=actions, condition=condition)

    def _head_is(self, version: int) -> Any:
        return self._heads.version == version if version else self._heads.tenant.does_not_exist()

    # Items.

    def _head_item(self, head: Head) -> HeadItem:
        return self._heads(
            head.tenant,
            head.name,
            state=str(head.state),
            revision=head.revision,
            version=head.version,
            job=head.job,
            expression=head.expression,
            timezone=head.timezone,
            description=head.description or None,
            tags=json.dumps(dict(head.tags)) if head.tags else None,
            note=head.note,
            resume_at=head.resume_at,
            managed_by=head.managed_by,
            failing=head.failing or None,
            failed_at=head.failed_at,
            failed_run=head.failed_run,
            incident=head.incident,
            created_at=head.created_at,
            updated_at=head.updated_at,
        )

    def _revision_item(self, revision: Revision) -> RevisionItem:
        definition = revision.definition
        return self._revisions(
            revision.owner,
            revision.number,
            shard=revision.shard,
            job=definition.job,
            rule=json.dumps(definition.rule.as_dict()),
            payload=definition.payload,
            payload_ref=definition.payload_ref,
            overrides=definition.overrides.encode(),
            options=definition.options.encode(),
            failing=revision.failing or None,
            active_from=revision.active_from,
            anchor=revision.anchor,
            active_until=revision.active_until,
            closed_by=None if revision.closed_by is None else str(revision.closed_by),
        )

    def _entry_item(self, entry: AgendaEntry) -> EntryItem:
        return self._entries(shard_key(entry.shard), entry.key, after=entry.after)


def _call(function: Callable[[], _T]) -> _T:
    """PynamoDB's errors as ours; the cause that botocore gave is kept."""
    try:
        return function()
    except PynamoDBException as problem:
        cause = problem.cause
        if isinstance(cause, ClientError):
            # PynamoDB's copy of botocore's error has lost why a transaction was cancelled.
            original = cause.__cause__ if isinstance(cause.__cause__, ClientError) else cause
            raise translated(original.response, type(problem).__name__) from problem
        raise Unavailable(f"{type(problem).__name__}: {problem}") from problem
    except ClientError as problem:
        raise translated(problem.response, "dynamodb") from problem
    except BotoCoreError as problem:
        raise Unavailable(f"dynamodb: {problem}") from problem

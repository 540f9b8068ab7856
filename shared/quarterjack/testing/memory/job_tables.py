"""Tables of jobs: they are not in memory. What ``ctx.transaction`` writes to them goes to a client of boto3 that the test brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quarterjack.aws.errors import TransactionRefused, translated
from quarterjack.errors import InvalidInput


def no_tables(items: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """Raises InvalidInput."""
    remedy = "pass Harness(dynamodb=client), a client of boto3 within moto's mock_aws() or of a local DynamoDB"
    raise InvalidInput("items", [*items], "are of tables that an installation in memory does not have", remedy)


def commit_items(client: Any, items: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """Write a job's items: empty, or the places of those whose conditions do not hold."""
    try:
        client.transact_write_items(TransactItems=list(items))
    except Exception as problem:
        response = getattr(problem, "response", None)
        if not isinstance(response, dict):
            raise
        error = translated(response, "transact_write_items")
        if isinstance(error, TransactionRefused) and error.places:
            return error.places
        raise error from problem
    return frozenset()

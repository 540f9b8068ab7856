"""Records of the stream become changes of runs; other rows are passed over, and nothing stops a batch."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import pytest
from quarterjack.domain.run import RunState
from quarterjack.domain.times import SECOND, to_ms
from quarterjack.dynamodb.items import to_item
from quarterjack.dynamodb.run_stream import parse_records
from quarterjack.stores.rows import run_row

from tests.support.builders import a_run

AT = datetime(2026, 5, 4, 8, 30, 1, tzinfo=UTC)
SECONDS = AT.timestamp()
RUN = a_run()
ROW = to_item(run_row(RUN))
KEYS = {name: ROW[name] for name in ("owner", "key")}


def record(*, number: int = 111, at: Any = SECONDS, **content: Any) -> dict[str, Any]:
    given = {"Keys": KEYS, "SequenceNumber": str(number), "ApproximateCreationDateTime": at} | content
    return {"eventName": "MODIFY", "dynamodb": given}


@pytest.mark.parametrize("at", [AT.timestamp(), int(AT.timestamp()), str(AT.timestamp()), AT])
def test_a_record_becomes_a_change_however_its_time_is_written(at: object) -> None:
    (change,) = parse_records([record(at=at, OldImage=ROW, NewImage=ROW | {"state": {"S": "RUNNING"}})]).changes
    assert (change.ref, change.sequence, change.at) == (RUN.ref, 111, to_ms(AT, "at") // SECOND * SECOND)
    assert change.old == RUN
    assert change.new is not None
    assert change.new.state is RunState.RUNNING
    assert not change.expired


def test_a_created_and_a_removed_row_have_one_image() -> None:
    created, removed = parse_records([record(NewImage=ROW), record(OldImage=ROW)]).changes
    assert (created.old, created.new, removed.old, removed.new) == (None, RUN, RUN, None)


@pytest.mark.parametrize("names", [("Type", "PrincipalId"), ("type", "principalId")])
def test_a_removal_by_dynamodb_is_an_expiry(names: tuple[str, str]) -> None:
    identity = dict(zip(names, ("Service", "dynamodb.amazonaws.com"), strict=True))
    (expired,) = parse_records([record(OldImage=ROW) | {"userIdentity": identity}]).changes
    assert expired.expired


@pytest.mark.parametrize(
    ("owner", "key"),
    [
        ("acme/report", "#0001777883400000#attempt#000001"),
        ("acme/report", "~turns"),
        ("~quarterjack/~audit", "~progress"),
        ("~quarterjack/~jobs", "~jobs~56b9fea59cdde2ca9b975632a7bafe5a"),
        ("acme#dead#2026-05-04", "#001777883400000#acme/report#001777883400000"),
        ("acme#dead#2026-05-04", "001777883400000"),
    ],
)
def test_what_is_no_run_is_passed_over(owner: str, key: str, caplog: pytest.LogCaptureFixture) -> None:
    parsed = parse_records([record(Keys={"owner": {"S": owner}, "key": {"S": key}}, NewImage={"x": {"S": "y"}})])
    assert (parsed.changes, parsed.unreadable, caplog.records) == ((), 0, [])


@pytest.mark.parametrize(
    "wrong",
    [
        record(NewImage=ROW | {"v": {"N": "99"}}),  # a later release's
        record(NewImage=ROW | {"state": {"S": "DANCING"}}),
        record(NewImage=ROW | {"rev": {"S": "one"}, "due": {"S": "noon"}}),
        record(NewImage=ROW, SequenceNumber="x"),
        record(NewImage=ROW, ApproximateCreationDateTime=None),
        record(Keys={}),
        record(NewImage={"state": "QUEUED"}),
        {"dynamodb": None},
        {},
    ],
)
def test_a_record_that_cannot_be_read_is_logged_and_counted_and_stops_no_other(
    wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        parsed = parse_records([record(NewImage=ROW), wrong, record(number=112, OldImage=ROW)])
    assert [change.sequence for change in parsed.changes] == [111, 112]
    assert parsed.unreadable == 1
    assert [each.message for each in caplog.records] == ["change.unreadable"]

"""The lines of a run in CloudWatch Logs: which groups are asked, how often, and what is said where that fails."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from quarterjack.aws import Client
from quarterjack.aws.errors import ServiceError, translated
from quarterjack.concurrency.pools import RequestPool
from quarterjack.domain.times import to_ms
from quarterjack.errors import InvalidInput, Misconfigured, QuarterjackError, Unavailable
from quarterjack.ports.run_logs import RunLogsQuery
from quarterjack.run_logs.cloudwatch import CloudWatchRunLogs

from tests.support.run_logs import RUN, line

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
BEGIN = to_ms(NOON, "begin")
WORKER = "/aws/lambda/p-worker"


class Groups:
    """Log groups whose pages have ``size`` events, of which the filter finds those with the pattern."""

    def __init__(self, events: Mapping[str, Sequence[tuple[int, str]]], size: int = 1_000) -> None:
        self.events, self.size = events, size  # by group: ms from noon, and the message
        self.asked: list[dict[str, Any]] = []

    def call(self, operation: str, /, **asked: Any) -> dict[str, Any]:
        assert operation == "filter_log_events"
        self.asked.append(asked)
        if asked["logGroupName"] not in self.events:
            raise refused("ResourceNotFoundException")
        inside = [
            (BEGIN + at, text)
            for at, text in self.events[asked["logGroupName"]]
            if asked["startTime"] <= BEGIN + at <= asked["endTime"]
        ]
        first = int(asked.get("nextToken", 0))
        events = [
            {"timestamp": at, "message": text}
            for at, text in inside[first : first + self.size]
            if json.loads(asked["filterPattern"]) in text
        ]
        more = {"nextToken": str(first + self.size)} if first + self.size < len(inside) else {}
        return {"events": events, **more}


def refused(code: str) -> QuarterjackError:
    """As a client of AWS raises it."""
    response = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    problem = translated(response, "filter_log_events")
    problem.__cause__ = ServiceError(response)
    return problem


def logs_of(groups: Any, *more: str) -> CloudWatchRunLogs:
    return CloudWatchRunLogs(lambda: cast("Client", groups), "p", more, pool=RequestPool(2))


def query(limit: int = 100, position: str | None = None, queues: Sequence[str | None] = (None,)) -> RunLogsQuery:
    return RunLogsQuery(run_id=RUN, begin=BEGIN, end=BEGIN + 3_600_000, limit=limit, position=position, queues=queues)


def said(at: int, text: str, **fields: Any) -> tuple[int, str]:
    return at, line(NOON + timedelta(milliseconds=at), text, **fields)


def events(logs: CloudWatchRunLogs, limit: int = 100) -> list[str]:
    found, position = list[str](), None
    while True:
        page = logs.read(query(limit, position))
        found += [f"{one.source}:{one.fields['event']}" for one in page.lines]
        if (position := page.position) is None:
            return found


def test_the_groups_of_the_functions_are_one_list() -> None:
    groups = Groups(
        {
            WORKER: [said(1, "started"), said(2, "other", run_id=f"{RUN}2"), (2, f"printed {RUN}"), said(5, "ended")],
            "/aws/lambda/p-undertaker": [said(6, "dead")],
            "/ecs/acme": [said(3, "in a container")],
            "/aws/lambda/other-worker": [said(3, "of another installation")],
        }
    )
    found = logs_of(groups, "/ecs/acme").read(query())
    assert [(one.source, one.fields["event"]) for one in found.lines] == [
        ("worker", "started"),
        ("/ecs/acme", "in a container"),
        ("worker", "ended"),
        ("undertaker", "dead"),
    ]
    assert found.sources == ["worker", "undertaker", "/ecs/acme"]
    assert found.position is None
    assert all(asked["filterPattern"] == f'"{RUN}"' for asked in groups.asked)
    assert len(groups.asked) == 5


def test_the_worker_of_the_runs_queue_is_asked() -> None:
    groups = Groups({"/aws/lambda/p-worker-reports": [said(1, "there")]})
    assert [one.source for one in logs_of(groups).read(query(queues=("reports",))).lines] == ["worker-reports"]
    assert WORKER not in {asked["logGroupName"] for asked in groups.asked}


@pytest.mark.parametrize("limit", [1, 3, 100])
@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_pages_go_on_where_the_one_before_ended(limit: int, size: int) -> None:
    """Also through pages of CloudWatch that have nothing of the run, with which a read ends after some requests."""
    lines = [
        said(at, f"{at}" if at % 50 == 0 else "noise", **({} if at % 50 == 0 else {"run_id": "x"})) for at in range(300)
    ]
    groups = Groups({WORKER: lines, "/aws/lambda/p-ticker": [said(120, "ticked")]}, size)
    found = events(logs_of(groups), limit)
    assert found == ["worker:0", "worker:50", "worker:100", "ticker:ticked", "worker:150", "worker:200", "worker:250"]


def test_one_read_sends_a_bounded_number_of_requests() -> None:
    groups = Groups({WORKER: [said(at, "noise", run_id="x") for at in range(1_000)]}, 1)
    page = logs_of(groups).read(query())
    assert not page.lines
    assert page.position is not None
    assert len([asked for asked in groups.asked if asked["logGroupName"] == WORKER]) == 5


class Refusing(Groups):
    def __init__(self, code: str) -> None:
        super().__init__({WORKER: [said(1, "x")]})
        self.code = code

    def call(self, operation: str, /, **asked: Any) -> dict[str, Any]:
        if "nextToken" in asked or self.code != "InvalidParameterException":
            raise refused(self.code)
        return {"events": [], "nextToken": "t"}


REFUSALS: list[tuple[str, type[QuarterjackError], str]] = [
    ("AccessDeniedException", Misconfigured, rf"log group {WORKER}; its role needs logs:FilterLogEvents"),
    ("ThrottlingException", Unavailable, "ThrottlingException"),
    ("InvalidParameterException", InvalidInput, "cursor='t': has expired"),
]


@pytest.mark.parametrize(("code", "kind", "text"), REFUSALS)
def test_a_refusal_says_what_to_do(code: str, kind: type[QuarterjackError], text: str) -> None:
    with pytest.raises(kind, match=text):
        logs_of(Refusing(code)).read(query())


@pytest.mark.parametrize(
    ("worker", "groups", "has"),
    [("a1b2-c3", (), True), ("worker@web1:7:ab", (), False), ("worker@web1:7:ab", ("/ecs/acme",), True)],
)
def test_lines_of_processes_are_there_if_their_group_is_named(worker: str, groups: Sequence[str], has: bool) -> None:
    assert logs_of(Groups({}), *groups).has_lines_of(worker) is has


def test_no_client_is_made_before_logs_are_asked_for() -> None:
    made = list[Groups]()

    def connect() -> Client:
        made.append(Groups({}))
        return cast("Client", made[-1])

    logs = CloudWatchRunLogs(connect, "p", (), pool=RequestPool())
    assert not made
    logs.read(query())
    logs.read(query())
    assert len(made) == 1

"""What the reference says is what the code has: nothing stale, nothing missing, nothing made up."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from enum import Enum
from types import ModuleType
from typing import Any

import pytest
import quarterjack
import quarterjack.ready_jobs.http
import quarterjack.testing
from quarterjack import errors
from quarterjack.domain.history.dead_run import DeadRunRow
from quarterjack.domain.names import fire_ref
from quarterjack.domain.run import EntryKind, RunState
from quarterjack.domain.schedule import Freeze
from quarterjack.signals.catalogue import METRICS
from quarterjack.state.transition import EndWords, Transition
from quarterjack.state.waits.park import WaitSpec
from quarterjack.stores import rows
from quarterjack.stores.dead_index import dead_put
from quarterjack.stores.records import Record, record_row
from quarterjack.stores.rows import entry_row
from quarterjack.stores.schedule_rows import freeze_row, head_row, revision_row
from quarterjack.stores.siblings import attempt_row
from quarterjack.web.shapes import remarks

from docs import generate
from docs.generators import api, entries
from tests.support.builders import BOOM, a_head, a_revision, a_run, an_attempt, an_entry
from tests.support.doc_pages import ROOT, page

PUBLIC = {
    "Answer",
    "AsyncScheduler",
    "CallNext",
    "Cause",
    "Child",
    "Context",
    "DeadRun",
    "Delivery",
    "Grant",
    "JobView",
    "LinkState",
    "LogLine",
    "LogPage",
    "Middleware",
    "middleware",
    "SignalOutcome",
    "SignalLink",
    "SignalReceipt",
    "Submission",
    "SubmittedBatch",
    "SubmittedItem",
    "Tenant",
    "TenantFigures",
    "TenantState",
    "Tenants",
    "ErasureCount",
    "ErasureProgress",
    "Flow",
    "Ended",
    "Loaded",
    "PROGRAMMING_ERRORS",
    "Page",
    "Queue",
    "SqsQueueView",
    "QueueView",
    "Redriven",
    "Registry",
    "Redact",
    "Retry",
    "Rule",
    "pipeline",
    "Run",
    "RunLink",
    "RunState",
    "RunTransition",
    "RunningPage",
    "Schedule",
    "ScheduleState",
    "Scheduler",
    "Settings",
    "Start",
    "Worker",
    "WorkerRun",
    "errors",
    "job",
    "load",
    "next_fires",
    "schedule",
    "Sentence",
    "Verdict",
}


PUBLIC_HTTP = {"Request", "Secret", "http_job", "send"}

# The public names.


def test_the_public_names_are_those_that_users_rely_on() -> None:
    assert set(quarterjack.__all__) == PUBLIC
    assert all(hasattr(quarterjack, name) for name in PUBLIC)
    assert set(quarterjack.ready_jobs.http.__all__) == PUBLIC_HTTP


def public_things() -> Iterator[tuple[str, Any]]:
    """Everything that a user may call or catch, by its dotted name."""
    for module in (quarterjack, quarterjack.ready_jobs.http, quarterjack.testing):
        for name in module.__all__:
            thing = getattr(module, name)
            yield name, thing
            if isinstance(thing, type) and not issubclass(thing, Enum):
                for member in entries.public_members(thing):
                    yield f"{name}.{member}", getattr(thing, member)
            elif isinstance(thing, ModuleType):
                yield from (
                    (f"errors.{n}", error)
                    for n, error in inspect.getmembers(thing, inspect.isclass)
                    if error.__module__ == thing.__name__
                )


@pytest.mark.parametrize(("name", "thing"), [pytest.param(*pair, id=pair[0]) for pair in public_things()])
def test_every_public_name_says_what_it_is(name: str, thing: Any) -> None:
    assert inspect.getdoc(thing), f"{name} has no docstring"


@pytest.mark.parametrize(
    "kind",
    [
        quarterjack.Context,
        quarterjack.Retry,
        quarterjack.Run,
        quarterjack.Schedule,
        quarterjack.ready_jobs.http.Request,
        quarterjack.ready_jobs.http.Secret,
    ],
)
def test_every_public_field_says_what_it_holds(kind: Any) -> None:
    said = remarks(kind)
    assert not [field.name for field in fields(kind) if not said.get(field.name)]


# The pages.


def test_no_generated_page_is_stale() -> None:
    stale = [str(path.relative_to(ROOT)) for path, present, wanted in generate.pages() if present != wanted]
    assert not stale, "run: .venv/bin/python docs/generate.py"


def test_every_error_has_its_line() -> None:
    ours = {name for name, error in inspect.getmembers(errors, inspect.isclass) if error.__module__ == errors.__name__}
    assert ours <= set(page("docs/reference/errors.md").prose_code)


def test_every_metric_is_explained_and_none_is_made_up() -> None:
    first = re.findall(r"^- `([A-Z]\w+)` \(", page("docs/reference/metrics.md").text, re.MULTILINE)
    assert set(first) == set(METRICS)


def log_events() -> set[str]:
    """The event names of all log lines: the first argument of a logger's call, the third of `readable`."""
    places = [*(ROOT / "functions").rglob("*.py"), *(ROOT / "shared" / "quarterjack").rglob("*.py")]
    calls = (node for place in places for node in ast.walk(ast.parse(place.read_text(encoding="utf-8"))))
    names = ("debug", "info", "warning", "error", "exception")
    found = set[str]()
    for node in calls:
        if isinstance(node, ast.Call):
            logs = isinstance(node.func, ast.Attribute) and node.func.attr in names
            reads = isinstance(node.func, ast.Name) and node.func.id == "readable"
            event = node.args[:1] if logs else node.args[2:3] if reads else []
            found |= {each.value for each in event if isinstance(each, ast.Constant) and isinstance(each.value, str)}
    return found


def test_no_log_event_is_made_up() -> None:
    named = re.findall(r"`([a-z]+\.[a-z_]+)`", page("docs/reference/metrics.md").text.partition("## Log lines")[2])
    assert set(named) <= log_events()
    assert named


def attributes_of_runs() -> set[str]:
    """Whatever is written into the ledger: rows as they are first put, and what transitions set."""
    filled: dict[str, Any] = dict.fromkeys(rows._NUMBERS, 1) | dict.fromkeys(rows._TEXTS, "x")
    changed = {name for made in made_transitions() for name in made.changes}
    return {*rows.run_row(a_run(**filled)), *changed, *attempt_row(an_attempt(), 1), "text", "payload_beside"}


def made_transitions() -> Iterator[Transition]:
    given: dict[str, Any] = {
        "revision": 2,
        "job": "report",
        "now": 1,
        "not_before": 1,
        "expires": 1,
        "reason": "r",
        "failure": BOOM,
        "fence": 1,
        "number": 1,
        "wake_at": 1,
        "wait": WaitSpec(awaits="sleep", reason="r", wake_at=1, not_before=1, asked="[]", asked_before=1),
        "token": "t",
        "worker": "w",
        "published": 1,
        "max_attempts": 3,
        "steal": True,
        "first": False,
        "state": "LOST",
        "queued": True,
        "seen": quarterjack.RunState.QUEUED,
        "to": quarterjack.RunState.CANCELLED,
        "result": "1",
        "result_ref": "k",
        "progress": 0.5,
        "stage": "s",
        "claim": a_run(backfill="b"),
        "order": a_run(payload="1"),
        "payload": "1",
        "parked": False,
        "backfill": "b",
        "version": "1",
        "bound_to": "1",
        "served_by": "1",
        "act": "a",
        "queue": "q",
        "overrides": "{}",
        "until": 1,
        "skipped": 1,
        "seen_skipped": 1,
        "seen_until": 1,
        "instant": 1,
        "due": 1,
        "begun": False,
        "seen_fence": 0,
    }
    for make in api.transition_makers().values():
        yield make(**{n: given[n] for n in arguments(make)})


def arguments(make: Callable[..., Transition]) -> set[str]:
    """The names of all arguments of a constructor of transitions."""
    parameters = set(inspect.signature(make).parameters)
    return parameters - {"end"} | set(EndWords.__annotations__) if "end" in parameters else parameters


def section(heading: str) -> set[str]:
    """The words in backticks of one section of the tables' page."""
    text = page("docs/reference/tables.md").text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"`([a-z_]+)`", text))


DEAD = DeadRunRow(
    run=fire_ref("acme/s", 1),
    job="j",
    ended_at=1,
    fence=1,
    attempts=1,
    reason="r",
    state=RunState.LOST,
    error_type="E",
    error="e",
    redriven_as="r",
)


@pytest.mark.parametrize(
    ("heading", "row"),
    [
        ("schedules", head_row(a_head())),
        ("revisions", revision_row(a_revision())),
        ("revisions", freeze_row(Freeze(tenant="acme", until=1))),
        ("agenda", entry_row(an_entry(1, after=1)) | entry_row(an_entry(1, kind=EntryKind.RUN, id="o#k", queue="q"))),
        ("runs", record_row(Record(owner="o", key="k", version=1, body={}))),
        ("runs", dead_put(DEAD, 1).row),
    ],
)
def test_every_attribute_of_a_table_is_explained(heading: str, row: dict[str, Any]) -> None:
    assert set(row) <= section(heading)


def test_every_attribute_of_the_ledger_is_explained() -> None:
    assert attributes_of_runs() <= section("runs")

"""Listings on a terminal of 80 columns: what stays, what is cut or left out, and that it is said."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from pkgutil import walk_packages

import pytest
from quarterjack import Retry, cli
from quarterjack.cli.app import run
from quarterjack.cli.installation import audit
from quarterjack.cli.runs import dead, listing
from quarterjack.cli.schedules import showing
from quarterjack.cli.shell import Shell, console, text_of
from quarterjack.cli.tables import Column, fitted
from quarterjack.settings import Settings

from tests.support.scenes.world import World

ARN = "iam:arn:aws:sts::123456789012:assumed-role/DeploymentPipelineOfTheTeam/alice.anderson@acme.example"
NOW = datetime.now(UTC)
RUN = "acme/nightly-report#000001774569600"
STYLES = re.compile("\x1b\\[[0-9;]*m")


@dataclass(frozen=True)
class Line:
    """A row of every listing, with values as long as they come."""

    at: datetime = NOW
    first: datetime = NOW + timedelta(hours=6)
    act: str = "cancel-backfill"
    target: str = "acme/a-schedule-with-a-long-name-of-its-own#000001774569600"
    actor: str = ARN
    via: str = "console"
    before: int = 100
    after: int = 101
    reason: str = "INC-4711: the database is moved to another region over night"
    name: str = "ip-10-0-131-17.eu-west-1.compute.internal-4711"
    state: str = "SUPERSEDED"
    backfill: str | None = None
    host: str = "ip-10-0-131-17.eu-west-1.compute.internal"
    queues: Mapping[str, int] = field(default_factory=lambda: {"default": 16, "reports": 4, "mail": 1, "imports": 2})
    runs: str = RUN
    last_seen_at: datetime = NOW - timedelta(minutes=3, seconds=5)
    version: str = "0.2.0"
    next_fires: Sequence[datetime] = field(  # NOW is minutes old when the whole suite runs
        default_factory=lambda: (datetime.now(UTC) + timedelta(days=1, hours=6, minutes=5),)
    )
    job: str = "acme.reports.nightly.customers"
    expression: str = "*/5 9-17 * * MON-FRI"
    timezone: str = "America/Argentina/Buenos_Aires"
    failing: int = 12
    duration: timedelta = timedelta(hours=3, minutes=5)
    failed_at: datetime = NOW
    failed_run: str = RUN
    due: datetime = NOW
    ended_at: datetime = NOW
    lateness: timedelta = timedelta(milliseconds=412)
    attempt: int = 12
    attempts: int = 12
    id: str = RUN
    error_type: str = "botocore.exceptions.ClientError"
    error: str = "An error occurred (ThrottlingException) when calling the PutObject operation"
    redriven_as: str = f"{RUN}~again"
    tenant: str = "acme"
    leased_at: datetime = NOW - timedelta(seconds=49)
    worker: str = "worker@ip-10-0-131-17.eu-west-1.compute.internal:4711:abc123"
    progress: float = 0.5
    stage: str = "copying the customers of the second half"
    last_heartbeat_at: datetime = NOW
    number: int = 12
    active_from: datetime = NOW
    active_until: datetime = NOW
    closed_by: str = "replaced"
    changed: Sequence[str] = ("expression", "payload", "retry")
    queue: str = "reports"
    stripe: int = 1
    waiting: str = "unknown"
    in_flight: str = "unknown"
    delayed: str = "unknown"
    oldest_age: str = "1 d 6 h"
    held: str = "depth since 2026-11-22 16:00:00Z"
    total: int = 100_000
    done: int = 100_000
    skipped: int = 100_000
    failed: int = 100_000
    start: datetime = NOW
    end: datetime = NOW
    retry: Retry = Retry(max_attempts=5)  # noqa: RUF009 (it is frozen)
    timeout: float = 600.0
    detail: Mapping[str, str] = field(default_factory=lambda: {"jobs": "report.*", "profile": "3"})
    day: date = date(2026, 11, 22)
    outcomes: Mapping[str, int] = field(default_factory=lambda: {"SUCCEEDED": 99_000, "DEAD": 900, "CANCELLED": 100})
    states: Mapping[str, int] = field(default_factory=lambda: {"DEAD": 2, "SUCCEEDED": 18})
    median_duration: timedelta = timedelta(seconds=3)
    longest_duration: timedelta = timedelta(minutes=20)
    median_wait: timedelta = timedelta(milliseconds=800)
    errors: Mapping[str, int] = field(default_factory=lambda: {"ConnectionResetError": 700, "ValueError": 200})

    def __getattr__(self, name: str) -> str:
        return f"a {name}"


def tables() -> Iterator[tuple[str, Sequence[Column]]]:
    """Every tuple of columns in a module of the command line."""
    for found in walk_packages(cli.__path__, "quarterjack.cli."):
        for name, value in vars(import_module(found.name)).items():
            if isinstance(value, tuple) and value and all(isinstance(column, Column) for column in value):
                yield f"{found.name.removeprefix('quarterjack.cli.')}.{name}", value


TABLES = dict(tables())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Screen:
    """Standard output and error of a terminal of some width, or of a pipe."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, width: int, *, pipe: bool = False) -> None:
        self.out, self.err = (io.StringIO(), io.StringIO()) if pipe else (Terminal(), Terminal())
        for name, value in {"COLUMNS": str(width), "TERM": "xterm", "NO_COLOR": "1"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("FORCE_COLOR", raising=False)
        monkeypatch.setattr("sys.stdout", self.out)
        monkeypatch.setattr("sys.stderr", self.err)
        console.cache_clear()

    @property
    def lines(self) -> list[str]:
        return STYLES.sub("", self.out.getvalue()).splitlines()

    @property
    def remarks(self) -> str:
        return STYLES.sub("", self.err.getvalue())


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Screen]:
    return lambda width, **how: Screen(monkeypatch, width, **how)


@pytest.fixture(autouse=True)
def _own_consoles() -> object:
    yield
    console.cache_clear()  # they keep the streams of this test


@pytest.mark.parametrize("name", TABLES)
def test_a_listing_fits_eighty_columns_and_says_what_it_leaves_out(name: str, screen: Callable[..., Screen]) -> None:
    shown = screen(80)
    Shell(Settings()).list([Line(), Line(actor="app:bob", reason="short", target="acme")], TABLES[name])
    assert len(shown.lines) == 3
    assert max(map(len, shown.lines)) <= 80
    kept = {column.heading for column in TABLES[name] if re.search(rf"\b{column.heading}\b", shown.lines[0])}
    for column in TABLES[name]:
        assert (column.heading in kept) or column.heading in shown.remarks, column
    if "id" in {column.name for column in TABLES[name]}:
        assert RUN in shown.lines[1], "whole, to be copied"
    said = re.search(r"in all lines: .*state SUPERSEDED", shown.remarks)
    assert "state" in kept or said or "state" not in {column.name for column in TABLES[name]}


def test_the_tables_are_found() -> None:
    assert {"schedules.showing.LISTED", "runs.listing._OF_SCHEDULE", "installation.machinery._JOBS"} <= set(TABLES)
    assert len(TABLES) >= 15


def test_schedules_keep_state_and_next_fire(screen: Callable[..., Screen]) -> None:
    shown = screen(80)
    Shell(Settings()).list([Line()], showing.LISTED)
    assert "SUPERSEDED" in shown.lines[1]
    assert "in 1 d 6 h" in shown.lines[1]
    assert "without timezone, expression; name, job shortened: a wider terminal or --json shows all" in shown.remarks
    wide = screen(400)
    Shell(Settings()).list([Line()], showing.LISTED)
    assert re.search(r"\w{3} 20\d\d-\d\d-\d\d \d\d:\d\d(:\d\d)? UTC \(in 1 d 6 h\)", wide.lines[1])
    assert wide.remarks == ""


def test_an_actor_is_cut_to_its_tail_and_a_short_one_stays(screen: Callable[..., Screen]) -> None:
    shown = screen(80)
    Shell(Settings()).list([Line(), Line(actor="app:bob")], audit._LISTED)
    _, first, second = shown.lines
    assert "ple" in first
    assert "arn:" not in first
    assert "app:bob" in second


def test_a_wide_terminal_and_a_pipe_show_all(screen: Callable[..., Screen]) -> None:
    for width, pipe in ((400, False), (80, True)):
        shown = screen(width, pipe=pipe)
        Shell(Settings()).list([Line()], audit._LISTED)
        assert ARN in shown.lines[1]
        assert Line.reason in shown.lines[1]
        assert "console" in shown.lines[1]
        assert shown.remarks == ""


def test_texts_are_cut_before_a_column_goes_and_no_further_than_it_says() -> None:
    columns = [Column("name", cut=12), Column("state"), Column("job", drop=1)]
    for room, dropped in ((70, []), (56, []), (55, ["job"])):
        table = fitted([Line()], columns, text_of, room)
        assert (table.dropped, table.cut) == (dropped, ["name"]), room
        assert max(map(len, table.lines)) <= room
    assert fitted([Line()], columns, text_of, None).remark is None
    assert fitted([], columns, text_of, 1).rows == [["name", "state"]]


def test_columns_without_a_cell_go_first_and_nothing_is_said_of_them() -> None:
    columns = [Column("name"), Column("reason", drop=1), Column("job", drop=2)]
    table = fitted([Line(reason="")], columns, text_of, 80)
    assert (table.rows[0], table.remark) == (["name", "job"], None)
    assert fitted([Line(reason="")], columns, text_of, 100).rows[0] == ["name", "reason", "job"]
    assert fitted([], columns, text_of, 5).rows == [["name"]]


def test_columns_that_say_the_same_in_each_line_go_first_and_are_said_once() -> None:
    columns = [Column("name"), Column("state", drop=1), Column("job", drop=2)]
    lines = [Line(name="a", job="x.one"), Line(name="b", job="x.two")]
    table = fitted(lines, columns, text_of, 16)
    assert table.rows == [["name", "job"], ["a", "x.one"], ["b", "x.two"]]
    assert table.remark == "in all lines: state SUPERSEDED: a wider terminal or --json shows all"
    one = fitted(lines[:1], columns, text_of, 16)
    assert (one.same, one.dropped) == ([], ["job"]), "of one line nothing is always the same"


@pytest.mark.parametrize("columns", [dead._COLUMNS, listing._OF_SCHEDULE], ids=["dead list", "runs list"])
def test_what_failed_keeps_its_error_and_the_time_of_its_end(
    columns: Sequence[Column], screen: Callable[..., Screen]
) -> None:
    shown = screen(80)
    first, second = Line(state="DEAD", error="the bank is closed"), Line(state="DEAD", error="no such account")
    Shell(Settings()).list([first, second], columns)
    heading, *lines = shown.lines
    assert "ended at" in heading
    assert "error" in heading.split()
    for line, error in zip(lines, ("the", "no"), strict=True):
        assert error in line
        assert f"{NOW:%m-%d %H:%M:%S}Z" in line
        assert RUN in line


LONG = "default/nightly/the-report-of-the-bank-for-the-morning#001795761375457"


@pytest.mark.parametrize(
    "columns", [dead._COLUMNS, listing._OF_SCHEDULE, listing._FOUND], ids=["dead", "runs", "found"]
)
def test_a_long_id_stands_below_the_rest_and_takes_no_column_away(
    columns: Sequence[Column], screen: Callable[..., Screen]
) -> None:
    shown = screen(80)
    failed = Line(state="DEAD", id=LONG, error="the bank is closed", error_type="Timeout", job="bank.report")
    Shell(Settings()).list([failed, Line(state="DEAD", error="no such account", error_type="Lost")], columns)
    heading, *lines = shown.lines
    assert max(map(len, shown.lines)) <= 80
    assert [line.strip() for line in lines[1::2]] == [LONG, RUN], "whole, to be copied"
    assert "ended at" in heading
    assert heading.endswith("  id")
    for line, error in zip(lines[::2], (("the bank", "Timeout"), ("no such", "Lost")), strict=True):
        assert f"{NOW:%m-%d %H:%M:%S}Z" in line
        assert any(text in line for text in error)


def test_a_long_id_stays_in_its_line_if_that_costs_nothing() -> None:
    table = fitted([Line(id=LONG)], [Column("state"), Column("id")], text_of, 82)
    assert table.lines[1] == f"SUPERSEDED  {LONG}"


def test_nothing_is_cut_below_eight_characters() -> None:
    table = fitted([Line()], [Column("name", cut=12), Column("state")], text_of, 10)
    assert table.rows[1] == ["ip-1…711", "SUPERSEDED"]


class TestOnAnInstallation:
    @pytest.fixture
    def world(self, monkeypatch: pytest.MonkeyPatch) -> World:
        world = World()
        monkeypatch.setattr("quarterjack.cli.shell.Shell.scheduler", world.scheduler)
        return world

    def test_schedules(self, world: World, screen: Callable[..., Screen]) -> None:
        for name in ("a-name-that-is-rather-long-as-names-of-schedules-are", "b"):
            world.scheduler.create_schedule(name, "note", "0 9 * * MON-FRI", timezone="Europe/Berlin")
        world.scheduler.pause_schedule("b")
        shown = screen(80)
        assert run(["schedules", "list"]) == 0
        heading, first, second = shown.lines
        assert max(map(len, shown.lines)) <= 80
        assert "state" in heading
        assert "next fire" in heading
        assert "ACTIVE" in first
        assert re.search(r"( ago| in \d|now)", first)
        assert "PAUSED" in second

    def test_json_is_exact(self, world: World, screen: Callable[..., Screen]) -> None:
        made = world.scheduler.create_schedule("s", "note", "0 9 * * *", timezone="Europe/Berlin")
        (fire,) = world.scheduler.preview(made.name, 1)
        shown = screen(40)
        assert run(["--json", "schedules", "list"]) == 0
        (line,) = shown.lines
        assert f'"next_fires": ["{fire.isoformat()}"]' in line
        assert shown.remarks == ""

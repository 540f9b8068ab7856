"""A local session from start to summary: an installation, the examples, the live table, the verification at the end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.live import Live

from quarterjack.domain.names import parse_run_id
from quarterjack.domain.times import SECOND
from quarterjack.errors import NotFound, QuarterjackError
from quarterjack.extras import install_remedy
from quarterjack.local.data_directory import keep, kept_port
from quarterjack.local.front_door import missing_module, open_front_door
from quarterjack.local.installation import LocalInstallation, installation
from quarterjack.local.session.examples import DemoPage, DemoProgram, schedule_examples
from quarterjack.local.session.status import SessionStatus, line, live, summary
from quarterjack.local.session.verifier import StartLog, VerifierReport, verify
from quarterjack.local_installations import RunningInstallation, export_line, published
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.sdk.views import Run
from quarterjack.settings import Settings
from quarterjack.state.lease import SKEW, lease_end
from quarterjack.terminal import in_one_line, printable

DEMO = "quarterjack.local.session.demo_jobs"
_POLL = 0.25  # seconds between reads of the logs
_SETTLE = 15.0  # seconds after the end for the runs that were due before it to start and end
_TAKE_OVER = (lease_end(0) + SKEW) / SECOND  # seconds until another worker takes over the runs of a crashed one
_PAGE = 500  # runs read at once
_BEGINNING = """\
Quarterjack runs on this machine. {end} with a summary. Its processes log to {folder}
{others}

{served}
"""
_OTHERS = """\
In another terminal: quarterjack --local schedules list
The SDK and all commands there use it after: eval "$(quarterjack local --env)"
That is, in full:

  {exports}"""
_UNPUBLISHED = """\
In another terminal, the SDK and the command line (`quarterjack schedules list`) use it after:

  {exports}

`--local` does not find it: {problem}"""
_SERVED = """\
In a browser: {url}/console/
Its key, also for the HTTP API at {url}/v1/tenants/{tenant}: {key}"""


@dataclass(frozen=True, kw_only=True)
class LocalOptions:
    seconds: float | None = None  # end by itself after so long; None: at Ctrl-C
    data: Path | None = None  # keep the state here
    jobs: tuple[str, ...] = ()  # the user's own packages, besides the examples
    examples: bool = True  # schedule the examples
    tickers: int = 1
    workers: int = 2
    settings: Settings = field(default_factory=Settings)  # followed but for places: see ``installation.local_settings``
    serves: bool = True  # the API and the console
    port: int | None = None  # of both; None: the usual one, or any free one if that is taken


def run(
    options: LocalOptions, console: Console, stop: threading.Event, *, on_started: Callable[[], object] = lambda: None
) -> int:
    """Run a session until ``stop`` is set or its time is over. ``on_started`` is called once everything runs.

    Raises UncleanSession if a fire was missing or double, and CloudDied, without a verdict, if the cloud ended by itself.
    """
    with (
        installation(
            data=options.data,
            jobs=(*([DEMO] if options.examples else []), *options.jobs),
            tickers=options.tickers,
            workers=options.workers,
            settings=options.settings,
            stop=stop,
        ) as running,
        _page(options.data) as page,
        _served(options, running.settings, console) as served,
        _published(running) as others,
    ):
        end = "Ctrl-C ends" if options.seconds is None else f"After {options.seconds:g} s it ends"
        text = _BEGINNING.format(end=end, folder=running.folder, others=others, served=served)
        _say(console, printable(text))
        running.wait_until_ready(stop)
        session = LocalSession(running, console)
        if options.examples and not stop.is_set():
            session.schedule(page)
        on_started()
        session.follow(stop, options.seconds)
        lasted = session.seconds
        verdict = session.verdict(wait_for_one_offs=options.seconds is not None)
        text = f"\n{printable(summary(verdict, lasted))}"
        if not _say(console, text, markup=False):
            _say(Console(stderr=True), text, markup=False)
        _say(console, "stopping …", style="dim")
        if not verdict.clean:
            raise UncleanSession(f"the logs of all processes are in {running.folder}")
        return 0


class UncleanSession(QuarterjackError):
    """A fire was missing or double. The summary names the runs."""


class LocalSession:
    def __init__(self, running: LocalInstallation, console: Console) -> None:
        self._running, self._console = running, console
        self._scheduler = Scheduler(settings=running.settings)
        self._starts, self._program = StartLog(), DemoProgram()
        self._status = SessionStatus(self._scheduler, self._program.labels)
        self._since = datetime.now(UTC)
        self._patience = _SETTLE
        self._unsaved: str | None = None  # why the state is not saved, as the terminal knows
        self._logs_whole = True  # False once there was no room: a line of a log may be missing

    @property
    def seconds(self) -> float:
        return (datetime.now(UTC) - self._since).total_seconds()

    def schedule(self, page: DemoPage) -> None:
        folder = self._running.folder
        schedule_examples(self._scheduler, self._program, page=page.url, folder=folder, since=self._since)

    def follow(self, stop: threading.Event, seconds: float | None) -> None:
        """Show runs and schedules until ``stop`` is set or the time is over."""
        with Live(console=self._console, auto_refresh=False) if self._console.is_terminal else nullcontext() as screen:
            while not stop.is_set() and (seconds is None or self.seconds < seconds):
                self._refresh(screen)
                stop.wait(_POLL if seconds is None else min(_POLL, max(0.0, seconds - self.seconds)))

    def verdict(self, *, wait_for_one_offs: bool) -> VerifierReport:
        """Wait until the runs that are due by now have ended, one-offs too if told, then compare expected fires and runs."""
        upto = datetime.now(UTC)
        awaited = {run_id for watched in self._program.watched for run_id in watched.expected(upto)}
        awaited |= set(self._program.labels) if wait_for_one_offs else set()
        began = time.monotonic()
        while not awaited <= self._starts.over and time.monotonic() - began < self._patience:
            self._refresh(None)
            self._running.watch.lost.wait(_POLL)
        self._refresh(None)
        runs = {watched.name: self._runs(watched.name, watched.since) for watched in self._program.watched}
        one_offs = [(self._scheduler.get_run(run_id), end) for run_id, end in self._program.ends.items()]
        self._starts.look_up(self._state_of)
        watched, whole = self._program.watched, self._logs_whole
        return verify(watched, runs, self._starts, upto, one_offs=one_offs, logs_whole=whole)

    def _refresh(self, screen: Live | None) -> None:
        self._running.watch.check()  # first: without it the processes end, too
        self._say_unsaved(self._running.watch.unsaved())
        gone = self._running.processes.replace_ended()
        events = list(self._running.follower.new())
        for process, event in events:
            self._starts.note(process, event)
        ended = self._status.note(event for _, event in events)
        for name in gone:
            self._starts.crashed(name)
            self._patience = _TAKE_OVER + _SETTLE
            _say(self._console, f"{name} ended and was started again")
        now = datetime.now(UTC)
        if screen is not None:
            self._status.refresh(now)
            screen.update(
                live(self._status.rows.values(), now, more=self._status.more, width=self._console.width), refresh=True
            )
        elif not self._console.is_terminal:
            for each in ended:
                _say(self._console, in_one_line(line(each)), markup=False)

    def _say_unsaved(self, why: str | None) -> None:
        """A line as soon as the state cannot be saved, and one as soon as it can again."""
        if why is not None and self._unsaved is None:
            place = f"{datetime.now().astimezone():%H:%M:%S}  the state cannot be saved in {self._running.folder}"
            text = f"{place}: {why}. Make room: what has changed since the last snapshot is lost at the end otherwise"
            _say(self._console, in_one_line(text), style="bold red", markup=False)
            self._logs_whole = False
        elif why is None and self._unsaved is not None:
            text = f"{datetime.now().astimezone():%H:%M:%S}  the state is saved again"
            _say(self._console, text)
        self._unsaved = why

    def _state_of(self, run_id: str) -> str | None:
        try:
            return str(self._scheduler.with_tenant(parse_run_id(run_id).tenant).get_run(run_id).state)
        except NotFound:  # its tenant was erased
            return None

    def _runs(self, name: str, after: datetime) -> list[Run]:
        runs: list[Run] = []
        cursor: str | None = None
        while True:
            page = self._scheduler.list_runs(name, after=after, limit=_PAGE, cursor=cursor)
            runs += page.items
            if (cursor := page.cursor) is None:
                return runs


def _say(console: Console, text: str, *, style: str = "", markup: bool = True) -> bool:
    """Print lines; returns whether it was possible: standard output may be a file on a full disk, which ends no session."""
    try:
        console.print(text, style=style or None, highlight=False, markup=markup, soft_wrap=True)
    except OSError:
        return False
    return True


@contextmanager
def _served(options: LocalOptions, settings: Settings, console: Console) -> Iterator[str]:
    """Serve the API and the console for the time of the block. Yields the lines about them for the start message."""

    def on_failure(problem: str) -> None:
        _say(console, in_one_line(problem), style="red", markup=False)

    missing = missing_module()
    if not options.serves or missing is not None:
        why = "--no-serve" if missing is None else f"{missing} is not installed; {install_remedy('web')}"
        yield f"No console and no HTTP API: {why}"
        return
    with open_front_door(settings, options.port, on_failure, data=options.data) as address:
        yield _SERVED.format(url=address.url, tenant=settings.tenant, key=address.key)


@contextmanager
def _published(running: LocalInstallation) -> Iterator[str]:
    """Let other processes of this user find the session for the time of the block. Yields the line about it for the start message."""
    exports = export_line(running.variables)
    entry = RunningInstallation(
        prefix=running.settings.prefix,
        port=int(str(running.settings.endpoint).rpartition(":")[2]),
        pid=os.getpid(),
        folder=str(running.folder),
        variables=running.variables,
    )
    with ExitStack() as block:
        try:
            block.enter_context(published(entry))
        except OSError as problem:  # a home that cannot be written: the session does not need it
            yield _UNPUBLISHED.format(exports=exports, problem=problem)
        else:
            yield _OTHERS.format(exports=exports)


@contextmanager
def _page(data: Path | None) -> Iterator[DemoPage]:
    """The page that an example checks, on the port of the last session with this data if that port is free."""
    note = None if data is None else data / "page.port"
    with DemoPage(0 if note is None else kept_port(note)) as page:
        if note is not None:
            keep(note, str(page.port))
        yield page

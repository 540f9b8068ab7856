"""``quarterjack runs tail``: follow a run, or the runs of a schedule, as they go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from quarterjack.cli.exits import code_of_run
from quarterjack.cli.moments import lateness
from quarterjack.cli.parameters import ForSeconds
from quarterjack.cli.shell import Shell, stop_on_signals, text_of, values
from quarterjack.domain.run import TERMINAL, RunState
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.sdk.views import Run
from quarterjack.terminal import in_one_line

_SOONEST, _SELDOM = 0.25, 5.0  # seconds between reads: longer while nothing changes
_SLOWER = 1.5  # factor
_NEWEST = 200  # runs of a schedule in each read


class RunFollower:
    """Detects changes of runs between two reads. Only fields that are printed count."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[object, ...]] = {}
        self.has_changes = True  # whether the last read found any

    @property
    def open(self) -> set[str]:
        """Ids of the runs that had not ended at their last read."""
        return {run_id for run_id, (state, *_) in self._seen.items() if state not in TERMINAL}

    def changed(self, runs: Sequence[Run]) -> list[Run]:
        """The runs that are new or changed, in the given order."""
        marks = {
            run.id: (run.state, run.attempt, run.slices, run.progress, run.stage, run.reason, run.cancel_requested)
            for run in runs
        }
        found = [run for run in runs if self._seen.get(run.id) != marks[run.id]]
        self._seen |= marks
        self.has_changes = bool(found)
        return found


def tail(
    shell: Shell,
    target: Annotated[str, typer.Argument(help="Id of a run, or name of a schedule.")],
    last: Annotated[
        int, typer.Option(min=0, max=_NEWEST, help="Number of past runs of a schedule to print first.")
    ] = 5,
    seconds: ForSeconds = None,
) -> None:
    """Follow a run until it has ended, or a schedule's runs until Ctrl-C; print each change.

    After a run has ended, the exit code is that of `runs wait`.
    """
    scheduler, follower = shell.scheduler, RunFollower()
    until = None if seconds is None else time.monotonic() + seconds
    with stop_on_signals() as stop:
        if "#" in target:
            for _ in _polls(stop, until, follower):
                found = scheduler.get_run(target)
                _print(shell, follower.changed([found]))
                if found.state in TERMINAL:
                    raise typer.Exit(code_of_run(found.state))
            return
        scheduler.get_schedule(target)
        follower.changed(_newest(scheduler, target)[: -last or None])  # known, and not shown
        for _ in _polls(stop, until, follower):
            newest = _newest(scheduler, target)
            older = follower.open - {found.id for found in newest}  # and not ended
            _print(shell, follower.changed([*map(scheduler.get_run, sorted(older)), *newest]))


def _polls(stop: threading.Event, until: float | None, follower: RunFollower) -> Iterator[None]:
    """Poll: soon after a change, less often without one."""
    pause = _SOONEST
    while not stop.is_set():
        yield
        pause = _SOONEST if follower.has_changes else min(pause * _SLOWER, _SELDOM)
        left = _SELDOM if until is None else until - time.monotonic()
        if left <= 0:
            return
        stop.wait(min(pause, left))


def _newest(scheduler: Scheduler, name: str) -> Sequence[Run]:
    """The newest runs of a schedule that are due, oldest first."""
    return scheduler.list_runs(name, before=_now(), limit=_NEWEST, newest_first=True).items[::-1]


def _now() -> datetime:
    return datetime.now(UTC)


def _due(due: datetime) -> str:
    """The time in UTC, with the date if that is not today's."""
    return f"{due:%H:%M:%S}Z" if due.date() == _now().date() else text_of(due)


def _print(shell: Shell, runs: list[Run]) -> None:
    for found in runs:
        late = lateness(found)
        late = f"{late} late" if late and found.backfill is None else late
        open_parts = (
            "" if found.progress is None else f"{found.progress:.0%}",
            found.stage,
            "cancellation asked for" if found.cancel_requested else "",
        )
        parts = (
            f"attempt {found.attempt}" if found.attempt > 1 else "",
            f"slice {found.slices + 1}" if found.slices else "",
            *(() if found.state in TERMINAL else open_parts),
            found.reason,
            f"{found.error_type}: {found.error}" if found.error_type and found.state is not RunState.SUCCEEDED else "",
        )
        about = ", ".join(filter(None, parts))
        text = f"{_now():%H:%M:%S}Z  due {_due(found.due)}  {found.state:<10}  {late:<12}  {found.id}  {about}"
        shell.answer(values(found), in_one_line(text).rstrip())

"""``quarterjack runs list``: runs of one schedule from the ledger, running runs, or a search of the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from quarterjack.cli.moments import WORDS, away, in_short, lateness
from quarterjack.cli.parameters import AllTenants, Cursor, Limit, matching, tag_of
from quarterjack.cli.shell import Shell, stop_on_signals, text_of
from quarterjack.cli.tables import Column
from quarterjack.cli.typed import EITHER, PAST
from quarterjack.errors import InvalidInput
from quarterjack.sdk.views import Run
from quarterjack.values import replace

_RUNNING = (
    Column("began", show=lambda run: away(run.leased_at)),
    Column("job", drop=1, cut=12),
    Column("worker", drop=3, cut=12),
    Column("progress"),
    Column("stage", drop=2, cut=12),
    Column("heartbeat", drop=4, show=lambda run: away(run.last_heartbeat_at)),
    Column("id"),
)
_OF_SCHEDULE = (
    Column("due", drop=3, short=in_short("due")),
    Column("state"),
    Column("lateness", drop=4, show=lateness),
    Column("attempt", drop=6),
    Column("ended_at", drop=1, short=in_short("ended_at")),
    Column("error", drop=2, cut=12),
    Column("reason", drop=5, cut=12),
    Column("id"),
)
_FOUND = (
    Column("ended_at", drop=1, short=in_short("ended_at")),
    Column("due", drop=3, short=in_short("due")),
    Column("state"),
    Column("job", drop=4, cut=12),
    Column("error_type", drop=2, cut=12),
    Column("lateness", drop=5, show=lateness),
    Column("attempt", drop=6),
    Column("waits", drop=7, cut=12, show=lambda run: run.reason if run.awaits else ""),
    Column("id"),
)


def list_running(shell: Shell, *, all_tenants: bool, limit: int, cursor: str | None) -> None:
    """Print the runs that are RUNNING, the one that began last first."""
    page = shell.scheduler.list_running(all_tenants=all_tenants, limit=limit, cursor=cursor)
    shell.page(page, _RUNNING)
    vanished = sum(run.worker_vanished for run in page.items)
    if vanished:
        shell.remark(f"{vanished} of these: the worker has vanished; another one takes the run")
    if page.unlisted:
        shell.remark(f"{page.unlisted} more runs, of any tenant, are at workers that do not list them")


@matching("no run matches")
def list_(
    shell: Shell,
    name: Annotated[
        str | None, typer.Argument(help="Name of the schedule. Without it the history is searched.")
    ] = None,
    after: Annotated[
        datetime | None, EITHER, typer.Option(help="Only runs due after this time, e.g. -3h, or 2026-12-24T18:00:00Z.")
    ] = None,
    before: Annotated[
        datetime | None, EITHER, typer.Option(help="Only runs due up to this time. Default: now.")
    ] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    state: Annotated[
        list[str] | None, typer.Option(help="Only runs in this state, e.g. SUCCEEDED. Repeatable.")
    ] = None,
    job: Annotated[str | None, typer.Option(help="Only runs of this job.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Only runs of schedules with this name prefix.")] = None,
    tag: Annotated[
        str | None, typer.Option(help="Only runs with this tag, their own or their schedule's: key=value, or key.")
    ] = None,
    error_type: Annotated[
        str | None, typer.Option(help="Only runs whose last failure has this class, e.g. ValueError.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Only this kind: fire, one-off, trigger, backfill or replay. Repeatable.")
    ] = None,
    since: Annotated[
        datetime | None,
        PAST,
        typer.Option(help=f"Earliest end, or due time of open runs, e.g. 2026-12-24T18:00:00Z, or {WORDS}."),
    ] = None,
    until: Annotated[datetime | None, PAST, typer.Option(help="Latest end, or due time of open runs.")] = None,
    *,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only runs that failed for good: DEAD, LOST, EXPIRED.")
    ] = False,
    running: Annotated[bool, typer.Option("--running", help="Only running runs, of any schedule.")] = False,
    all_tenants: AllTenants = False,
    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="List the oldest runs of a schedule first.")
    ] = False,
    upcoming: Annotated[
        bool, typer.Option("--upcoming", help="Include runs of a schedule that are not due yet.")
    ] = False,
) -> None:
    """List the runs of a schedule, the running runs, or runs of all schedules and one-offs in the history; newest first."""
    filters = {
        "state": state or None,
        "job": job,
        "prefix": prefix,
        "tag": None if tag is None else tag_of(tag),
        "error_type": error_type,
        "kind": kind or None,
        "since": since,
        "until": until,
        "failed": failed,
    }
    fires: dict[str, Any] = {"after": after, "before": before}
    order = {"oldest_first": oldest_first, "upcoming": upcoming}
    if running:
        _leave_out(
            "was given together with --running", "give one of the two", {"name": name, **fires, **order, **filters}
        )
        list_running(shell, all_tenants=all_tenants, limit=limit, cursor=cursor)
    elif name is None or all_tenants or any(filters.values()):
        _leave_out("is for the fires of one schedule", "name a schedule, without filters", order)
        columns = ((Column("tenant", drop=6),) if all_tenants else ()) + _FOUND
        _search(shell, {"name": name, "all_tenants": all_tenants, **fires, **filters}, columns, limit, cursor)
    else:
        fires |= {"newest_first": not oldest_first, "upcoming": upcoming or before is not None}
        shell.page(shell.scheduler.list_runs(name, **fires, limit=limit, cursor=cursor), _OF_SCHEDULE)


def _leave_out(problem: str, remedy: str, given: Mapping[str, object]) -> None:
    """Raises InvalidInput for the first option that was given."""
    for field, value in given.items():
        if value not in (None, False):
            raise InvalidInput(field if field == "name" else f"--{field.replace('_', '-')}", value, problem, remedy)


def _search(
    shell: Shell, conditions: Mapping[str, Any], columns: Sequence[Column], limit: int, cursor: str | None
) -> None:
    """Search on and on, since a page of an answer ends after a while, with few runs or none; Ctrl-C ends it after a page."""
    runs: list[Run] = []
    with stop_on_signals() as stop:
        while True:
            page = shell.scheduler.list_runs(**conditions, cursor=cursor, limit=limit - len(runs))
            runs += page.items
            cursor = page.cursor
            if cursor is None or len(runs) >= limit or stop.is_set():
                break
    shell.page(replace(page, items=runs), columns)
    if cursor is not None and page.searched_to is not None:
        shell.remark(f"searched back to {text_of(page.searched_to)}")

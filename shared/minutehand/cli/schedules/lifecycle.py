"""Commands for one schedule: pause, resume, delete, trigger, skip."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from minutehand.cli.output import read_moment, read_payload
from minutehand.cli.parameters import ClientToken, Drain, ExpectedRevision, Key, Name, Payload, Yes
from minutehand.cli.shell import of


def pause(
    context: typer.Context,
    name: Name,
    note: Annotated[str | None, typer.Option(help="The reason, as text.")] = None,
    until: Annotated[str | None, typer.Option(help="Resume at this time, e.g. 2026-12-24T18:00:00Z.")] = None,
    expected_revision: ExpectedRevision = None,
    client_token: ClientToken = None,
    *,
    drain: Drain = False,
) -> None:
    """Pause a schedule: after the return none of its runs starts."""
    shell = of(context)
    bound: dict[str, Any] = {"expected_revision": expected_revision, "client_token": client_token}
    end = read_moment(until, "until")
    shell.show(shell.scheduler().pause_schedule(name, note=note, until=end, drain=drain, **bound))


def resume(
    context: typer.Context,
    name: Name,
    expected_revision: ExpectedRevision = None,
    client_token: ClientToken = None,
) -> None:
    """Resume a paused schedule from now on."""
    scheduler = of(context).scheduler()
    resumed = scheduler.resume_schedule(name, expected_revision=expected_revision, client_token=client_token)
    of(context).show(resumed)


def delete(
    context: typer.Context,
    name: Name,
    expected_revision: ExpectedRevision = None,
    client_token: ClientToken = None,
    *,
    drain: Drain = False,
    yes: Yes = False,
) -> None:
    """Delete a schedule; its past runs stay in the ledger."""
    of(context).confirm(f"Delete schedule {name}", yes=yes)
    bound: dict[str, Any] = {"expected_revision": expected_revision, "client_token": client_token}
    of(context).scheduler().delete_schedule(name, drain=drain, **bound)


def trigger(
    context: typer.Context,
    name: Name,
    payload: Payload = None,
    key: Key = None,
    expected_revision: ExpectedRevision = None,
) -> None:
    """Run a schedule now, independent of its expression."""
    given: dict[str, Any] = {} if payload is None else {"payload": read_payload(payload)}
    scheduler = of(context).scheduler()
    of(context).show(scheduler.trigger(name, idempotency_key=key, expected_revision=expected_revision, **given))


def skip_next(
    context: typer.Context,
    name: Name,
    expected_revision: ExpectedRevision = None,
    client_token: ClientToken = None,
) -> None:
    """Skip the next fire of a schedule; later fires stay."""
    scheduler = of(context).scheduler()
    of(context).show(scheduler.skip_next(name, expected_revision=expected_revision, client_token=client_token))

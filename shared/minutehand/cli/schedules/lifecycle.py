"""Commands for a whole schedule: pause, resume, delete, trigger, skip; and the filter options of bulk calls."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from minutehand.cli.output import read_moment, read_payload
from minutehand.cli.shell import Name, Yes, of

Payload = Annotated[str | None, typer.Option(help="What the job is given: JSON, or - to read it from standard input.")]
Drain = Annotated[bool, typer.Option("--drain", help="Let runs that are due already go.")]
ExpectedRevision = Annotated[int | None, typer.Option(help="Refuse if another revision is current.")]
ClientToken = Annotated[str | None, typer.Option(help="A text of your own: the same call again with it acts once.")]

Prefix = Annotated[str, typer.Option(help="Only names that begin so.")]
State = Annotated[str | None, typer.Option(help="ACTIVE, PAUSED or COMPLETED only.")]
OfJob = Annotated[str | None, typer.Option(help="Of this job only.")]
Tag = Annotated[str | None, typer.Option(help="With this tag only: key=value, or key for any value.")]
Failing = Annotated[
    bool | None, typer.Option("--failing/--not-failing", help="Of which an incident goes on, or none does.")
]
ManagedBy = Annotated[str | None, typer.Option(help="Declared in this package or file only.")]


def filtered(*, tag: str | None, **words: Any) -> dict[str, Any]:
    """A filter as the SDK takes it."""
    key, equals, value = (tag or "").partition("=")
    return {**words, "tag": None if tag is None else (key, value) if equals else key}


def pause(
    context: typer.Context,
    name: Name,
    note: Annotated[str | None, typer.Option(help="Why.")] = None,
    until: Annotated[str | None, typer.Option(help="Resume by itself then, e.g. 2026-12-24T18:00:00Z.")] = None,
    expected_revision: ExpectedRevision = None,
    client_token: ClientToken = None,
    *,
    drain: Drain = False,
) -> None:
    """Stop a schedule: when this returns, nothing of it starts any more."""
    paused = (
        of(context)
        .scheduler()
        .pause_schedule(
            name,
            note=note,
            until=read_moment(until, "until"),
            drain=drain,
            expected_revision=expected_revision,
            client_token=client_token,
        )
    )
    of(context).show(paused)


def resume(
    context: typer.Context,
    name: Name,
    expected_revision: ExpectedRevision = None,
    client_token: ClientToken = None,
) -> None:
    """Let a paused schedule go on, from now."""
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
    key: Annotated[str | None, typer.Option(help="Idempotency key: the same key is the same run.")] = None,
    expected_revision: ExpectedRevision = None,
) -> None:
    """Run a schedule now, whatever its expression says."""
    given: dict[str, Any] = {} if payload is None else {"payload": read_payload(payload)}
    scheduler = of(context).scheduler()
    of(context).show(scheduler.trigger(name, idempotency_key=key, expected_revision=expected_revision, **given))


def skip_next(
    context: typer.Context,
    name: Name,
    expected_revision: ExpectedRevision = None,
    client_token: ClientToken = None,
) -> None:
    """Skip the next fire of a schedule; the ones after it stay."""
    scheduler = of(context).scheduler()
    of(context).show(scheduler.skip_next(name, expected_revision=expected_revision, client_token=client_token))

"""``minutehand schedules …``: create and change them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from minutehand.cli.shell import Name, Yes, of, read_payload
from minutehand.errors import InvalidInput
from minutehand.model.policies import Retry

app = typer.Typer(help="Create and change schedules.", no_args_is_help=True)

Payload = Annotated[str | None, typer.Option(help="What the job is given: JSON, or - to read it from standard input.")]
Timezone = Annotated[str | None, typer.Option(help="IANA time zone of the expression, e.g. Europe/Berlin.")]
Description = Annotated[str | None, typer.Option(help="Free text.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="key=value; may be repeated.")]
Delivery = Annotated[str | None, typer.Option(help="at_least_once or at_most_once instead of the job's own.")]
Start = Annotated[str | None, typer.Option(help="prompt or exact instead of the job's own.")]
Attempts = Annotated[int | None, typer.Option("--max-attempts", help="Instead of the job's own.")]
Drain = Annotated[bool, typer.Option("--drain", help="Let runs that are due already go.")]


@app.command()
def create(
    context: typer.Context,
    name: Name,
    job: Annotated[str, typer.Argument(help="Name of the job.")],
    expression: Annotated[str, typer.Argument(help="'*/5 * * * *', 'rate(5 minutes)' or 'at(2026-12-24T18:00:00)'.")],
    timezone: Timezone = None,
    payload: Payload = None,
    description: Description = None,
    tags: Tags = None,
    delivery: Delivery = None,
    start: Start = None,
    max_attempts: Attempts = None,
) -> None:
    """Create a schedule; it is active at once."""
    given = _given(
        timezone=timezone,
        payload=payload,
        description=description,
        tags=_tags(tags),
        delivery=delivery,
        start=start,
        retry=_retry(max_attempts),
    )
    of(context).show(of(context).scheduler().create_schedule(name, job, expression, **given))


@app.command()
def update(
    context: typer.Context,
    name: Name,
    job: Annotated[str | None, typer.Option(help="Another job.")] = None,
    expression: Annotated[str | None, typer.Option(help="Other times.")] = None,
    timezone: Timezone = None,
    payload: Payload = None,
    description: Description = None,
    tags: Tags = None,
    delivery: Delivery = None,
    start: Start = None,
    max_attempts: Attempts = None,
) -> None:
    """Change what is given; the rest stays. Fires due before the change keep the old definition."""
    given = _given(
        job=job,
        expression=expression,
        timezone=timezone,
        payload=payload,
        description=description,
        tags=_tags(tags),
        delivery=delivery,
        start=start,
        retry=_retry(max_attempts),
    )
    if not given:
        raise InvalidInput("update", name, "nothing to change", "give at least one option")
    of(context).show(of(context).scheduler().update_schedule(name, **given))


@app.command()
def get(context: typer.Context, name: Name) -> None:
    """Show a schedule with its next fires."""
    of(context).show(of(context).scheduler().get_schedule(name))


@app.command("list")
def list_(
    context: typer.Context,
    prefix: Annotated[str, typer.Option(help="Only names that begin so.")] = "",
    state: Annotated[str | None, typer.Option(help="ACTIVE, PAUSED or COMPLETED only.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many.")] = 100,
) -> None:
    """List schedules by name."""
    scheduler = of(context).scheduler()
    page = scheduler.list_schedules(prefix=prefix, state=state, limit=limit)
    of(context).list(page.items, ("name", "state", "job", "expression", "timezone"))
    of(context).more(page)


@app.command()
def pause(
    context: typer.Context,
    name: Name,
    note: Annotated[str | None, typer.Option(help="Why.")] = None,
    *,
    drain: Drain = False,
) -> None:
    """Stop a schedule: when this returns, nothing of it starts any more."""
    of(context).show(of(context).scheduler().pause_schedule(name, note=note, drain=drain))


@app.command()
def resume(context: typer.Context, name: Name) -> None:
    """Let a paused schedule go on, from now."""
    of(context).show(of(context).scheduler().resume_schedule(name))


@app.command()
def delete(context: typer.Context, name: Name, *, drain: Drain = False, yes: Yes = False) -> None:
    """Delete a schedule; its past runs stay in the ledger."""
    of(context).confirm(f"Delete schedule {name}", yes=yes)
    of(context).scheduler().delete_schedule(name, drain=drain)


def _given(*, payload: str | None, **options: Any) -> dict[str, Any]:
    """The options that were given, as arguments of the SDK. ``--payload null`` is one."""
    read = {} if payload is None else {"payload": read_payload(payload)}
    return read | {name: value for name, value in options.items() if value is not None}


def _tags(pairs: list[str] | None) -> dict[str, str] | None:
    if not pairs:
        return None
    for pair in pairs:
        if "=" not in pair:
            raise InvalidInput("tag", pair, "has no value", "write --tag key=value")
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}


def _retry(max_attempts: int | None) -> Retry | None:
    return None if max_attempts is None else Retry(max_attempts=max_attempts)

"""``quarterjack schedules …``: create, change and show schedules, one or many."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, cast

import typer

from quarterjack.cli.exits import ExitCode
from quarterjack.cli.parameters import (
    ClientToken,
    Cursor,
    Drain,
    DryRun,
    ExpectedRevision,
    Key,
    Limit,
    Name,
    Payload,
    Reason,
    RunTags,
    Strict,
    Yes,
    matching,
    payload_of,
    read_tags,
    tags_given,
)
from quarterjack.cli.runs.history import as_record, list_days
from quarterjack.cli.schedules import backfills
from quarterjack.cli.schedules.options import parse_options, with_filters, with_schedule_options
from quarterjack.cli.schedules.preview import of_schedule
from quarterjack.cli.schedules.showing import (
    FAILING,
    LISTED,
    show_created,
    show_description,
    show_result,
    show_resumed,
    show_schedule,
    warn_if_declared,
)
from quarterjack.cli.shell import Shell, print_json, stop_on_signals, values
from quarterjack.cli.typed import COMING
from quarterjack.errors import InvalidInput, Misconfigured

app = typer.Typer(no_args_is_help=True)

Job = Annotated[str, typer.Argument(help="Name of the job.")]
Expression = Annotated[str, typer.Argument(help="'*/5 * * * *', 'rate(5 minutes)' or 'at(2026-12-24T18:00:00)'.")]

Until = Annotated[
    datetime | None,
    COMING,
    typer.Option(help="Time of the resumption, e.g. 2h, 'tomorrow 09:00', 2026-12-24T18:00:00Z."),
]


@app.command()
@with_schedule_options
def create(
    shell: Shell,
    name: Name,
    job: Job,
    expression: Expression,
    *,
    client_token: ClientToken = None,
    strict: Strict = False,
    **words: Any,
) -> None:
    """Create a schedule; it is active at once."""
    definition = parse_options(words).definition(expression)
    made = shell.scheduler.strictly(strict=strict)
    show_created(shell, made.create_schedule(name, job, **definition, client_token=client_token))


@app.command()
@with_schedule_options
def upsert(
    shell: Shell,
    name: Name,
    job: Job,
    expression: Expression,
    *,
    managed_by: Annotated[str | None, typer.Option(help="Package or file that declares the schedule.")] = None,
    expected_revision: ExpectedRevision = None,
    client_token: ClientToken = None,
    strict: Strict = False,
    **words: Any,
) -> None:
    """Create a schedule, or update it to these options; a missing option has its default. Writes only differences."""
    definition = parse_options(words).definition(expression)
    definition |= {"managed_by": managed_by, "expected_revision": expected_revision, "client_token": client_token}
    done = shell.scheduler.strictly(strict=strict).upsert_schedule(name, job, **definition)
    if shell.as_json:
        print_json({"change": done.change, "schedule": values(done.schedule)})
    else:
        shell.say(done.change)
        shell.show(done.schedule)


@app.command()
@with_schedule_options
def update(
    shell: Shell,
    name: Name,
    *,
    job: Annotated[str | None, typer.Option(help="New job.")] = None,
    expression: Annotated[str | None, typer.Option(help="New expression.")] = None,
    unset: Annotated[
        list[str] | None, typer.Option(help="Remove the value of an option, e.g. max-running. Repeatable.")
    ] = None,
    expected_revision: ExpectedRevision = None,
    client_token: ClientToken = None,
    strict: Strict = False,
    **words: Any,
) -> None:
    """Change the given options; the others stay. Fires due before the change keep the old definition."""
    options = parse_options(words, unset=unset)
    changes = {**options.words, **({} if job is None else {"job": job})}
    if options.has_rule:
        present = shell.scheduler.describe_schedule(name)
        changes["expression"] = options.rule_after(present.definition.rule, expression)
        if expected_revision is None:
            expected_revision = present.schedule.revision  # detects a concurrent change of the rule
    elif expression or options.rule:
        changes |= {"expression": expression, **options.rule}
    if not changes:
        raise InvalidInput("name", name, "nothing to change", "give at least one option")
    changes |= {"expected_revision": expected_revision, "client_token": client_token}
    changed = shell.scheduler.strictly(strict=strict).update_schedule(name, **changes)
    shell.show(changed)
    warn_if_declared(shell, changed)


@app.command()
def get(shell: Shell, name: Name) -> None:
    """Show a schedule with its next fires."""
    show_schedule(shell, shell.scheduler.get_schedule(name))


@app.command()
def describe(shell: Shell, name: Name) -> None:
    """Show a schedule with its definition, history, next fires, last runs, statistics of a week, and the health of its chain."""
    found = shell.scheduler.describe_schedule(name)
    try:
        days = shell.scheduler.stats(schedule=name)
    except Misconfigured:  # the history is switched off
        days = []
    if shell.as_json:
        print_json(values(found) | {"days": [as_record(day) for day in days]})
        return
    show_description(shell, found)
    if days:
        shell.say("\nlast days", style="bold")
        list_days(shell, days)


@app.command("list")
@matching("no schedule matches")
@with_filters
def list_(shell: Shell, limit: Limit = 100, cursor: Cursor = None, **conditions: Any) -> None:
    """List schedules by name."""
    page = shell.scheduler.list_schedules(**conditions, next_fires=1, limit=limit, cursor=cursor)
    shell.page(page, FAILING if conditions.get("failing") else LISTED)


app.command("preview")(of_schedule)


@app.command()
def pause(
    shell: Shell,
    name: Name,
    reason: Reason = None,
    until: Until = None,
    expected_revision: ExpectedRevision = None,
    client_token: ClientToken = None,
    *,
    drain: Drain = False,
) -> None:
    """Pause a schedule. When the command has returned, none of its runs starts."""
    given: dict[str, Any] = {"expected_revision": expected_revision, "client_token": client_token, "drain": drain}
    shell.show(shell.scheduler.pause_schedule(name, reason=reason, until=until, **given))


@app.command()
def resume(
    shell: Shell, name: Name, expected_revision: ExpectedRevision = None, client_token: ClientToken = None
) -> None:
    """Resume a paused schedule from now on."""
    resumed = shell.scheduler.resume_schedule(name, expected_revision=expected_revision, client_token=client_token)
    show_resumed(shell, resumed)


@app.command()
def delete(
    shell: Shell,
    name: Name,
    expected_revision: ExpectedRevision = None,
    client_token: ClientToken = None,
    *,
    drain: Drain = False,
    yes: Yes = False,
) -> None:
    """Delete a schedule; its past runs stay in the ledger."""
    shell.confirm(f"Delete schedule {name}", yes=yes)
    shell.scheduler.delete_schedule(name, expected_revision=expected_revision, client_token=client_token, drain=drain)


@app.command()
def trigger(
    shell: Shell,
    name: Name,
    payload: Payload = None,
    priority: Annotated[
        str | None, typer.Option(help="Priority instead of the schedule's: high, normal or low.")
    ] = None,
    tags: RunTags = None,
    key: Key = None,
    expected_revision: ExpectedRevision = None,
) -> None:
    """Run a schedule now, independent of its expression."""
    given = {"idempotency_key": key, "expected_revision": expected_revision, **payload_of(payload)}
    given |= tags_given(tags)
    shell.show(shell.scheduler.trigger(name, priority=cast(Any, priority), **given))


@app.command()
def skip_next(
    shell: Shell, name: Name, expected_revision: ExpectedRevision = None, client_token: ClientToken = None
) -> None:
    """Skip the next fire of a schedule; later fires stay."""
    shell.show(shell.scheduler.skip_next(name, expected_revision=expected_revision, client_token=client_token))


app.command("backfill")(backfills.start)


@app.command()
@matching("no schedule matches")
@with_filters
def bulk(
    shell: Shell,
    action: Annotated[str, typer.Argument(help="Action: pause, resume, delete, retag or trigger.")],
    reason: Reason = None,
    until: Annotated[
        datetime | None, COMING, typer.Option(help="For pause: time of the resumption, e.g. 2h, or 'tomorrow 09:00'.")
    ] = None,
    payload: Annotated[
        str | None, typer.Option(help="For trigger: JSON that replaces each schedule's payload.")
    ] = None,
    client_token: ClientToken = None,
    tags: Annotated[
        list[str] | None, typer.Option("--set", help="For retag: tag to set, key=value. Repeatable.")
    ] = None,
    removed: Annotated[
        list[str] | None, typer.Option("--remove", help="For retag: key of a tag to remove. Repeatable.")
    ] = None,
    rate: Annotated[float, typer.Option(help="Maximum number of schedules per second.")] = 500.0,
    cursor: Cursor = None,
    names: Annotated[
        list[str] | None, typer.Option("--name", help="Only the schedule of this name. Repeatable.")
    ] = None,
    *,
    drain: Drain = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    **conditions: Any,
) -> None:
    """Pause, resume, delete, retag or trigger every schedule that meets all conditions; at least one must be given.

    It prints the number of schedules and asks for confirmation. Ctrl-C ends it between two schedules; --cursor continues. A failed
    schedule does not stop the others; the exit code is then 1.
    """
    conditions |= {
        "reason": reason,
        "until": until,
        "drain": drain,
        "client_token": client_token,
        "rate": rate,
        "cursor": cursor,
        "names": names or None,
    }
    conditions |= payload_of(payload)
    if tags or removed:
        conditions["tags"] = {**read_tags(tags or []), **dict.fromkeys(removed or [])}
    result = shell.scheduler.bulk(cast(Any, action), **conditions, dry_run=True)
    if result.count and not dry_run:
        shell.confirm(f"{action.capitalize()} {result.count} schedules", yes=yes)
        with stop_on_signals() as stop, shell.progress(action, result.count) as advance:
            result = shell.scheduler.bulk(
                cast(Any, action), **conditions, on_progress=lambda now: advance(now.done + now.failed), stop=stop
            )
    show_result(shell, result)
    shell.matched(result.count + len(result.failed) if result.cursor is None else 1)
    if result.failed:
        raise typer.Exit(ExitCode.FAILED)

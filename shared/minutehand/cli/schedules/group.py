"""``minutehand schedules …``: create, change and show schedules."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from minutehand.cli.output import print_json, text_of, values
from minutehand.cli.parameters import ClientToken, Cursor, ExpectedRevision, Limit, Name
from minutehand.cli.schedules import backfills, bulk, lifecycle
from minutehand.cli.schedules.options import ParsedOptions, parse_options, with_filters, with_schedule_options
from minutehand.cli.shell import Shell, of
from minutehand.errors import InvalidInput
from minutehand.sdk.scheduler import Scheduler
from minutehand.sdk.views import ScheduleDescription

app = typer.Typer(help="Create, change and show schedules.", no_args_is_help=True)

Job = Annotated[str, typer.Argument(help="Name of the job.")]
Expression = Annotated[str, typer.Argument(help="'*/5 * * * *', 'rate(5 minutes)' or 'at(2026-12-24T18:00:00)'.")]

_LISTED = ("name", "state", "job", "expression", "timezone")
_FAILING = ("failing", "failed_at", "failed_run")
_RUNS = ("due", "state", "lateness", "reason", "id")


@app.command()
@with_schedule_options
def create(
    context: typer.Context,
    name: Name,
    job: Job,
    expression: Expression,
    *,
    client_token: ClientToken = None,
    **words: Any,
) -> None:
    """Create a schedule; it is active at once."""
    shell, definition = of(context), parse_options(words).definition(expression)
    shell.show(shell.scheduler().create_schedule(name, job, **definition, client_token=client_token))


@app.command()
@with_schedule_options
def upsert(
    context: typer.Context,
    name: Name,
    job: Job,
    expression: Expression,
    *,
    managed_by: Annotated[str | None, typer.Option(help="The package or file that declares it.")] = None,
    expected_revision: ExpectedRevision = None,
    client_token: ClientToken = None,
    **words: Any,
) -> None:
    """Create a schedule, or update it to these options; a missing option has its default. Writes only differences."""
    shell, definition = of(context), parse_options(words).definition(expression)
    definition |= {"managed_by": managed_by, "expected_revision": expected_revision, "client_token": client_token}
    done = shell.scheduler().upsert_schedule(name, job, **definition)
    if shell.as_json:
        print_json({"change": done.change, "schedule": values(done.schedule)})
    else:
        shell.say(done.change)
        shell.show(done.schedule)


@app.command()
@with_schedule_options
def update(
    context: typer.Context,
    name: Name,
    *,
    job: Annotated[str | None, typer.Option(help="Another job.")] = None,
    expression: Annotated[str | None, typer.Option(help="Another expression.")] = None,
    unset: Annotated[list[str] | None, typer.Option(help="Remove the value of this option, e.g. max-running.")] = None,
    expected_revision: ExpectedRevision = None,
    client_token: ClientToken = None,
    **words: Any,
) -> None:
    """Change the given options; the others stay. Fires due before the change keep the old definition."""
    options, scheduler = parse_options(words, unset=unset), of(context).scheduler()
    changes = {**options.words, **({} if job is None else {"job": job})}
    if options.has_rule:
        changes["expression"], expected_revision = _rule_after(scheduler, name, options, expression, expected_revision)
    elif expression or options.rule:
        changes |= {"expression": expression, **options.rule}
    if not changes:
        raise InvalidInput("update", name, "nothing to change", "give at least one option")
    changed = scheduler.update_schedule(name, **changes, expected_revision=expected_revision, client_token=client_token)
    of(context).show(changed)


def _rule_after(
    scheduler: Scheduler, name: str, options: ParsedOptions, expression: str | None, expected: int | None
) -> tuple[Any, int]:
    """The changed rule, and the revision that it was derived from, to detect a concurrent change."""
    present = scheduler.describe_schedule(name)
    rule = options.rule_after(present.definition.rule, expression)
    return rule, present.schedule.revision if expected is None else expected


@app.command()
def get(context: typer.Context, name: Name) -> None:
    """Show a schedule with its next fires."""
    of(context).show(of(context).scheduler().get_schedule(name))


@app.command()
def describe(context: typer.Context, name: Name) -> None:
    """Show a schedule with its definition, history, next fires, last runs, and the health of its chain."""
    shell = of(context)
    found = shell.scheduler().describe_schedule(name)
    if shell.as_json:
        shell.show(found)
    else:
        _describe(shell, found)


def _describe(shell: Shell, found: ScheduleDescription) -> None:
    shell.show(found.schedule)
    definition = found.definition
    rule = {key: value for key, value in definition.rule.as_dict().items() if key not in ("expression", "timezone")}
    for heading, shown in (("rule", rule), ("policies", definition.policies), ("options", definition.options)):
        if shown:
            shell.say(f"\n{heading}", style="bold")
            shell.say("\n".join(f"{key.replace('_', ' ')}  {text_of(value)}" for key, value in shown.items()))
    chain = found.chain
    shell.say("\nchain", style="bold")
    due = "" if chain.due is None else f", its entry is due {text_of(chain.due)}"
    shell.say(f"{chain.state}{due}" + ("" if chain.remedy is None else f"\n→ {chain.remedy}"))
    shell.say("\nrevisions", style="bold")
    shell.list(found.revisions, ("number", "active_from", "active_until", "closed_by", "changed"))
    shell.say("\nlast runs", style="bold")
    shell.list(found.last_runs, _RUNS)


@app.command("list")
@with_filters
def list_(
    context: typer.Context,
    limit: Limit = 100,
    cursor: Cursor = None,
    **conditions: Any,
) -> None:
    """List schedules by name."""
    shell = of(context)
    page = shell.scheduler().list_schedules(**conditions, limit=limit, cursor=cursor)
    shell.list(page.items, (*_LISTED, *_FAILING) if conditions.get("failing") else _LISTED)
    shell.more(page)


@app.command()
def preview(
    context: typer.Context, name: Name, count: Annotated[int, typer.Option(help="Number of fires.")] = 10
) -> None:
    """Show the next fires of a schedule. For an expression, use `minutehand preview`."""
    shell = of(context)
    fires = shell.scheduler().preview(name, count)
    for fire in fires:
        if shell.as_json:
            print_json(fire.isoformat())
        else:
            shell.say(f"{fire:%a} {text_of(fire)}  {fire.tzname()}")
    if not fires:
        shell.remark("none: it is not ACTIVE")


app.command("pause")(lifecycle.pause)
app.command("resume")(lifecycle.resume)
app.command("delete")(lifecycle.delete)
app.command("trigger")(lifecycle.trigger)
app.command("skip-next")(lifecycle.skip_next)
app.command("backfill")(backfills.start)
app.command("bulk")(bulk.run)

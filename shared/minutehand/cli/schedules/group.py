"""``minutehand schedules …``: create, change and look at them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from minutehand.cli.output import print_json, text_of, values
from minutehand.cli.schedules import backfills, bulk, lifecycle
from minutehand.cli.schedules.options import ParsedOptions, given, with_words
from minutehand.cli.shell import Name, Shell, of
from minutehand.errors import InvalidInput
from minutehand.sdk.answers import ScheduleDescription
from minutehand.sdk.scheduler import Scheduler

app = typer.Typer(help="Create, change and look at schedules.", no_args_is_help=True)

Job = Annotated[str, typer.Argument(help="Name of the job.")]
Expression = Annotated[str, typer.Argument(help="'*/5 * * * *', 'rate(5 minutes)' or 'at(2026-12-24T18:00:00)'.")]

_LISTED = ("name", "state", "job", "expression", "timezone")
_FAILING = ("failing", "failed_at", "failed_run")
_RUNS = ("due", "state", "lateness", "reason", "id")


@app.command()
@with_words
def create(
    context: typer.Context,
    name: Name,
    job: Job,
    expression: Expression,
    *,
    client_token: lifecycle.ClientToken = None,
    **words: Any,
) -> None:
    """Create a schedule; it is active at once."""
    said = given(words)
    made = of(context).scheduler().create_schedule(name, job, **_whole(said, expression), client_token=client_token)
    of(context).show(made)


@app.command()
@with_words
def upsert(
    context: typer.Context,
    name: Name,
    job: Job,
    expression: Expression,
    *,
    managed_by: Annotated[str | None, typer.Option(help="The package or file that it is declared in.")] = None,
    expected_revision: lifecycle.ExpectedRevision = None,
    client_token: lifecycle.ClientToken = None,
    **words: Any,
) -> None:
    """Create a schedule, or make it what is said: what is left out has its default. Writes nothing where it is so."""
    said = given(words)
    done = (
        of(context)
        .scheduler()
        .upsert_schedule(
            name,
            job,
            **_whole(said, expression),
            managed_by=managed_by,
            expected_revision=expected_revision,
            client_token=client_token,
        )
    )
    if of(context).as_json:
        print_json({"change": done.change, "schedule": values(done.schedule)})
    else:
        of(context).say(done.change)
        of(context).show(done.schedule)


@app.command()
@with_words
def update(
    context: typer.Context,
    name: Name,
    *,
    job: Annotated[str | None, typer.Option(help="Another job.")] = None,
    expression: Annotated[str | None, typer.Option(help="Other times.")] = None,
    unset: Annotated[
        list[str] | None, typer.Option(help="An option that shall have no value, e.g. max-running.")
    ] = None,
    expected_revision: lifecycle.ExpectedRevision = None,
    client_token: lifecycle.ClientToken = None,
    **words: Any,
) -> None:
    """Change what is given; the rest stays. Fires due before the change keep the old definition."""
    said, scheduler = given(words, unset=unset), of(context).scheduler()
    changes = {**said.words, **({} if job is None else {"job": job})}
    if set(said.rule) <= {"timezone"}:
        changes |= {"expression": expression, **said.rule} if expression or said.rule else {}
    else:
        changes["expression"], expected_revision = _rule_after(scheduler, name, said, expression, expected_revision)
    if not changes:
        raise InvalidInput("update", name, "nothing to change", "give at least one option")
    changed = scheduler.update_schedule(name, **changes, expected_revision=expected_revision, client_token=client_token)
    of(context).show(changed)


def _whole(said: ParsedOptions, expression: str) -> dict[str, Any]:
    """The arguments of a new schedule. A rule has its own time zone."""
    rule = said.expression(expression)
    return {
        "expression": rule,
        **({"timezone": said.rule.get("timezone")} if isinstance(rule, str) else {}),
        **said.words,
    }


def _rule_after(
    scheduler: Scheduler, name: str, said: ParsedOptions, expression: str | None, expected: int | None
) -> tuple[Any, int]:
    """The changed rule, and the revision that it was derived from, to detect a concurrent change."""
    present = scheduler.describe_schedule(name)
    rule = said.rule_after(present.definition.rule, expression)
    return rule, present.schedule.revision if expected is None else expected


@app.command()
def get(context: typer.Context, name: Name) -> None:
    """Show a schedule with its next fires."""
    of(context).show(of(context).scheduler().get_schedule(name))


@app.command()
def describe(context: typer.Context, name: Name) -> None:
    """Show all there is to know: definition, history, next fires, last runs, and whether it goes on by itself."""
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
    for heading, said in (("rule", rule), ("policies", definition.policies), ("options", definition.options)):
        if said:
            shell.say(f"\n{heading}", style="bold")
            shell.say("\n".join(f"{key.replace('_', ' ')}  {text_of(value)}" for key, value in said.items()))
    chain = found.chain
    shell.say("\nchain", style="bold")
    due = "" if chain.due is None else f", its entry is due {text_of(chain.due)}"
    shell.say(f"{chain.state}{due}" + ("" if chain.remedy is None else f"\n→ {chain.remedy}"))
    shell.say("\nrevisions", style="bold")
    shell.list(found.revisions, ("number", "active_from", "active_until", "closed_by", "changed"))
    shell.say("\nlast runs", style="bold")
    shell.list(found.last_runs, _RUNS)


@app.command("list")
def list_(
    context: typer.Context,
    prefix: lifecycle.Prefix = "",
    state: lifecycle.State = None,
    job: lifecycle.OfJob = None,
    tag: lifecycle.Tag = None,
    managed_by: lifecycle.ManagedBy = None,
    limit: Annotated[int, typer.Option(help="At most so many.")] = 100,
    cursor: Annotated[str | None, typer.Option(help="Go on after an earlier list.")] = None,
    *,
    failing: lifecycle.Failing = None,
) -> None:
    """List schedules by name."""
    shell = of(context)
    page = shell.scheduler().list_schedules(
        **lifecycle.filtered(prefix=prefix, state=state, job=job, tag=tag, failing=failing, managed_by=managed_by),
        limit=limit,
        cursor=cursor,
    )
    shell.list(page.items, (*_LISTED, *_FAILING) if failing else _LISTED)
    shell.more(page)


@app.command()
def preview(
    context: typer.Context, name: Name, count: Annotated[int, typer.Option(help="How many fires.")] = 10
) -> None:
    """Show the next fires of a schedule. `minutehand preview` does so for an expression."""
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

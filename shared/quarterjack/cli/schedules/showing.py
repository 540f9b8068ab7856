"""Schedules as people see them: columns of their listings, the answer to a creation, one schedule, and everything about one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from quarterjack.cli.moments import away, day_and_time, fire, lateness
from quarterjack.cli.shell import Shell, text_of
from quarterjack.cli.tables import Column
from quarterjack.errors import QuarterjackError
from quarterjack.sdk.schedule_views import Schedule, ScheduleDescription
from quarterjack.sdk.schedules.bulk import BulkResult
from quarterjack.timing import TAKEN

_NAMED = (
    Column("name", cut=24),
    Column("state"),
    Column(
        "next_fire",
        show=lambda one: fire(next(iter(one.next_fires), None)),
        short=lambda one: away(next(iter(one.next_fires), None)),
    ),
)
_DEFINED = (Column("job", drop=1, cut=16), Column("expression", drop=2, cut=16), Column("timezone", drop=3))
LISTED = (*_NAMED, *_DEFINED)
FAILING = (
    *_NAMED,
    Column("failing"),
    Column("failed_at", drop=3),
    Column("failed_run", drop=1),
    Column("job", drop=2, cut=16),
    Column("expression", drop=4, cut=16),
    Column("timezone", drop=5),
)
TASKS = (
    Column("name"),
    Column("job", drop=1, cut=16),
    Column("after", cut=16),
    Column("join", drop=3),
    Column("when", drop=2, cut=16),
    Column("optional", drop=4, show=lambda task: "yes" if task.optional else ""),
)
_REVISIONS = (
    Column("number"),
    Column("active_from"),
    Column("active_until", drop=1),
    Column("closed_by", drop=2),
    Column("actor", drop=3, cut=16),
    Column("changed", cut=16),
)
_RUNS = (
    Column("due"),
    Column("state"),
    Column("lateness", show=lateness),
    Column("reason", drop=1, cut=16),
    Column("id"),
)


def show_created(shell: Shell, made: Schedule) -> None:
    """Print a created schedule and its next fire; as JSON the schedule."""
    if shell.as_json:
        shell.show(made)
        return
    shell.say(f"created {made.name}: {made.job}, {made.expression}, {made.timezone}")
    _say_next_fire(shell, made.name)


def show_resumed(shell: Shell, resumed: Schedule) -> None:
    """A schedule that is ACTIVE again, and its next fire; as JSON the schedule."""
    if shell.as_json:
        shell.show(resumed)
        return
    shell.say(f"{resumed.name} is {resumed.state}: {resumed.job}, {resumed.expression}, {resumed.timezone}")
    _say_next_fire(shell, resumed.name)


def warn_if_declared(shell: Shell, changed: Schedule) -> None:
    """Warn that the next ``apply`` reverts a change made by hand."""
    if changed.managed_by is not None:
        shell.warn(
            f"{changed.name} is declared by {changed.managed_by}: the next `quarterjack apply` of that takes this change back; "
            "change the declaration as well"
        )


def warn_if_crowded(shell: Shell, fires: Sequence[datetime]) -> None:
    """Warn if so many schedules fire at the first of some instants that their runs start late."""
    from quarterjack.sdk.schedules.crowded import crowd_words  # noqa: PLC0415 (the listings need none of it)

    if fires and (words := crowd_words(shell.scheduler.session, fires[0])) is not None:
        shell.warn(words)


def _say_next_fire(shell: Shell, name: str) -> None:
    try:
        upcoming = shell.scheduler.preview(name, 1)
    except QuarterjackError as problem:  # what the command did is done all the same
        shell.say(f"next fire unknown: {problem}")
    else:  # without one, the call repeated an earlier one by its token
        shell.say(f"next fire {fire(upcoming[0])}" if upcoming else "no next fire: it is not ACTIVE any more")
        warn_if_crowded(shell, upcoming)


def show_schedule(shell: Shell, found: Schedule) -> None:
    """A schedule, with its fires in words."""
    fires = [fire(found.next_fires[0]), *map(day_and_time, found.next_fires[1:])] if found.next_fires else []
    said = {"next_fires": "\n".join(fires), "last_fired_at": fire(found.last_fired_at), "definition": ""}
    tasks = found.definition.get("tasks")
    if tasks is not None:
        said["tasks"] = f"{len(tasks)}; `quarterjack pipelines show {found.name}` shows them"
    shell.show(found, said)


def show_description(shell: Shell, found: ScheduleDescription) -> None:
    """Everything about a schedule."""
    show_schedule(shell, found.schedule)
    definition, chain = found.definition, found.chain
    options = {key: value for key, value in definition.options.items() if key != "tasks"}
    rule = {
        key: value for key, value in definition.rule.as_dict().items() if key not in ("expression", "timezone", *TAKEN)
    }
    for heading, shown in (("rule", rule), ("policies", definition.policies), ("options", options)):
        if shown:
            shell.say(f"\n{heading}", style="bold")
            shell.say("\n".join(f"{key.replace('_', ' ')}  {text_of(value)}" for key, value in shown.items()))
    if "tasks" in definition.options:
        from quarterjack.sdk.pipelines.drawing import tasks_of_definition  # noqa: PLC0415 (pipelines alone need it)

        shell.say("\ntasks", style="bold")
        shell.list(tasks_of_definition(definition.options["tasks"]), TASKS)
    shell.say("\nchain", style="bold")
    due = "" if chain.due is None else f", its entry is due {text_of(chain.due)}"
    shell.say(f"{chain.state}{due}" + ("" if chain.remedy is None else f"\n→ {chain.remedy}"))
    shell.say("\nrevisions", style="bold")
    shell.list(found.revisions, _REVISIONS)
    shell.say("\nlast runs", style="bold")
    shell.list(found.last_runs, _RUNS)


def show_result(shell: Shell, result: BulkResult) -> None:
    """The names of a dry run, the failures, and the counts of a change of many schedules."""
    if shell.as_json:
        shell.show(result)
        return
    if result.dry_run and result.done:
        shell.say("\n".join(result.done))
    for name, problem in result.failed.items():
        shell.say(f"failed: {name}: {shell.words.text(problem)}", style="red")
    verb = "would be done" if result.dry_run else "done"
    rest = "" if result.cursor is None else f"; {shell.continued(result.cursor)} continues"
    shell.remark(f"{result.action}: {result.count} {verb}, {len(result.failed)} failed{rest}")

"""The command line's root: its options, and the table of commands. A command's module is imported when the command is called.

``COMMANDS`` names every command with its help, so that ``minutehand --help`` imports none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from minutehand.cli.parameters import everywhere
from minutehand.cli.shell import Shell
from minutehand.domain.names import check_tenant
from minutehand.settings import from_environment

_MARKUP: Any = "rich"


@dataclass(frozen=True)
class CommandEntry:
    """Where a command is implemented, and what the root's help says of it."""

    help: str  # one line; of a command, the first line of its docstring
    home: str  # module, below minutehand.cli
    attribute: str  # a function is a command, a typer.Typer a group of commands


COMMANDS: Mapping[str, CommandEntry] = {
    "local": CommandEntry(
        "Run everything on this machine: an embedded cloud, a ticker, workers, and examples to watch.",
        "installation.local",
        "run",
    ),
    "schedules": CommandEntry("Create, change and show schedules.", "schedules.group", "app"),
    "backfills": CommandEntry("Show, pause, resume and cancel backfills.", "schedules.backfills", "app"),
    "runs": CommandEntry("Show, cancel, retry, replay and follow runs.", "runs.group", "app"),
    "dead": CommandEntry("Runs that failed for good.", "runs.dead", "app"),
    "submit": CommandEntry("Run a job once: now, at a time, or after a delay.", "runs.submit", "run"),
    "preview": CommandEntry("Show the next fires of an expression.", "schedules.preview", "run"),
    "apply": CommandEntry(
        "Create and update schedules as a package or a file declares them; show the differences first.",
        "schedules.apply",
        "apply",
    ),
    "export": CommandEntry(
        "Write all schedules as YAML that apply accepts unchanged, one document for each owner.",
        "schedules.apply",
        "export",
    ),
    "schema": CommandEntry(
        "Print the JSON Schema of the files that apply reads, for completion and checks in editors.",
        "schedules.apply",
        "schema",
    ),
    "import": CommandEntry(
        "Convert schedules of other systems: a crontab, EventBridge, Kubernetes, Celery.", "schedules.imports", "app"
    ),
    "queues": CommandEntry("List the queues that exist.", "installation.tenant", "queues"),
    "freeze": CommandEntry(
        "Start no run of the tenant until this time. Running attempts continue; due runs start afterwards.",
        "installation.tenant",
        "freeze",
    ),
    "thaw": CommandEntry(
        "End the freeze now: runs that it delayed start within five minutes.", "installation.tenant", "thaw"
    ),
    "frozen": CommandEntry("Print whether the tenant is frozen, and until when.", "installation.tenant", "frozen"),
    "doctor": CommandEntry(
        "Check the installation from this machine: print each problem with its remedy. Writes nothing.",
        "installation.doctor",
        "run",
    ),
    "worker": CommandEntry(
        "Run jobs: receive messages of a work queue by long polling.", "installation.processes", "worker"
    ),
    "ticker": CommandEntry(
        "Run the ticker: send the runs that are due within the look-ahead to the work queue. Several may run at once.",
        "installation.processes",
        "ticker",
    ),
    "undertaker": CommandEntry("Record dead runs: read the dead-letter queue.", "installation.processes", "undertaker"),
    "audit": CommandEntry(
        "Check the invariants on the live data once, and repair violations.", "installation.processes", "audit"
    ),
}


@cache
def command(name: str) -> Any:
    """The command of that name, imported. Cached: ``everywhere`` changes a group, and must do so once."""
    entry = COMMANDS[name]
    found = getattr(import_module(f"minutehand.cli.{entry.home}"), entry.attribute)
    alone = typer.Typer(rich_markup_mode=_MARKUP, callback=lambda: None)  # with a callback it is a group, also of one
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name, help=entry.help)
    else:
        alone.command(name)(found)
    return typer.main.get_group(everywhere(alone)).commands[name]


class LazyGroup(typer.core.TyperGroup):
    """A group that lists its commands from ``COMMANDS`` and imports the one that is called."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for name, entry in COMMANDS.items():
            self.commands[name] = typer.core.TyperCommand(name, help=entry.help, rich_markup_mode=_MARKUP)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the arguments name, imported, and the arguments left to it."""
        name, listed, left = super().resolve_command(ctx, args)
        return name, command(name) if name in COMMANDS else listed, left


app = typer.Typer(
    cls=LazyGroup,
    help="Run this job at that time, once, and tell me what happened.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=_MARKUP,
)


def _version(*, asked: bool) -> None:
    if asked:
        typer.echo(f"minutehand {import_module('importlib.metadata').version('minutehand')}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    tenant: Annotated[
        str | None, typer.Option(help="Owner of the schedules and runs. Default: MINUTEHAND_TENANT.")
    ] = None,
    prefix: Annotated[str | None, typer.Option(help="Of tables and queues. Default: MINUTEHAND_PREFIX.")] = None,
    endpoint: Annotated[str | None, typer.Option(help="Of a local cloud. Default: AWS_ENDPOINT_URL, or AWS.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line instead of tables.")] = False,
    version: Annotated[  # noqa: ARG001 (its callback has answered)
        bool,
        typer.Option(
            "--version", is_eager=True, callback=lambda asked: _version(asked=asked), help="Print the version."
        ),
    ] = False,
) -> None:
    found = from_environment()
    settings = replace(
        found.at(endpoint),
        tenant=check_tenant(tenant or found.tenant),
        prefix=prefix or found.prefix,
    )
    context.obj = Shell(settings, as_json)


def whole() -> Any:
    """The root with every command imported, for the reference pages and tests."""
    root: Any = typer.main.get_command(app)
    root.commands |= {name: command(name) for name in COMMANDS}
    return root

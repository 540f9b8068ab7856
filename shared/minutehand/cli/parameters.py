"""Parameters that commands share, and the decorators that add them to the signature that typer reads."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Annotated, Any

import typer

Command = Callable[..., Any]

Name = Annotated[str, typer.Argument(help="Name of the schedule.")]
RunId = Annotated[str, typer.Argument(help="Id of the run, as submit and list print it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")]
Payload = Annotated[str | None, typer.Option(help="Payload of the job: JSON, or - to read it from standard input.")]
Drain = Annotated[bool, typer.Option("--drain", help="Runs that are already due still start.")]
ExpectedRevision = Annotated[int | None, typer.Option(help="Refuse if another revision is current.")]
ClientToken = Annotated[str | None, typer.Option(help="Any text: repeating the call with it changes nothing.")]
Key = Annotated[str | None, typer.Option(help="Idempotency key: the same key is the same run.")]
Limit = Annotated[int, typer.Option(help="Maximum number of lines.")]
Cursor = Annotated[str | None, typer.Option(help="Continue after an earlier call, which printed the cursor.")]
ForSeconds = Annotated[float | None, typer.Option("--for", min=0, help="End after this many seconds.")]


def with_parameters(function: Command, added: Iterable[inspect.Parameter], call: Command) -> Command:
    """``call``, with the name, help and parameters of ``function`` and the ``added`` ones behind them."""
    signature = inspect.signature(function, eval_str=True)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    result: Any = functools.wraps(function)(call)
    result.__signature__ = signature.replace(parameters=[*own, *added])
    result.__annotations__ = {one.name: one.annotation for one in result.__signature__.parameters.values()}
    return result  # type: ignore[no-any-return]


def option(name: str, kind: Any, default: Any, what: Any) -> inspect.Parameter:
    """A keyword parameter for ``with_parameters``; ``what`` is a ``typer.Option``."""
    annotated = Annotated[kind, what]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotated)


def with_json(function: Command) -> Command:
    """A command that takes ``--json`` behind its own name as well as before it."""

    def call(*, as_json_here: bool, context: typer.Context, **given: Any) -> Any:
        if as_json_here:
            context.obj = replace(context.obj, as_json=True)
        return function(context=context, **given)

    what = typer.Option("--json", help="One JSON object a line.")
    return with_parameters(function, [option("as_json_here", bool, default=False, what=what)], call)


def everywhere(app: typer.Typer) -> typer.Typer:
    """Give ``--json`` to every command of an app and its groups."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = with_json(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            everywhere(group.typer_instance)
    return app

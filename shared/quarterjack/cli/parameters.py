"""Parameters that commands share, how their values are read, and the decorators that add them to the signature that typer reads."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from quarterjack.cli.completion import completing
from quarterjack.cli.exits import ExitCode
from quarterjack.cli.moments import is_ago
from quarterjack.cli.typed import ZONE, Duration, TypedReader, TypedTime, anchor_of, as_text, markers_of
from quarterjack.cli.wording import Wording
from quarterjack.domain.payload import parse_json
from quarterjack.errors import InvalidInput, Misconfigured, QuarterjackError
from quarterjack.job_packages import load
from quarterjack.jobs import Registry, default_registry
from quarterjack.values import replace

if TYPE_CHECKING:
    from quarterjack.cli.shell import Shell

Command = Callable[..., Any]
HELP = ["--help", "-h"]  # of every command and group

Name = Annotated[str, typer.Argument(help="Name of the schedule.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run, as submit and list print it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")]
Payload = Annotated[str | None, typer.Option(help="Payload of the job: JSON, or - for standard input.")]
Reason = Annotated[
    str | None,
    typer.Option(
        help="Reason, recorded in the audit log and shown with the effect. Default: --reason before the command."
    ),
]
Drain = Annotated[bool, typer.Option("--drain", help="Let runs start that are already due.")]
ExpectedRevision = Annotated[int | None, typer.Option(help="Refuse the change if another revision is current.")]
ClientToken = Annotated[
    str | None, typer.Option(help="Token of the call: a repeated call with the same token changes nothing.")
]
Key = Annotated[str | None, typer.Option(help="Idempotency key: the same key returns the same run.")]
RunTags = Annotated[list[str] | None, typer.Option("--tag", help="Tag of the run, key=value. Repeatable.")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse a job that no worker has published, instead of a warning.")
]
Limit = Annotated[int, typer.Option(help="Maximum number of lines.")]
Cursor = Annotated[str | None, typer.Option(help="Cursor that an earlier call printed: continue there.")]
AllTenants = Annotated[bool, typer.Option("--all-tenants", help="Include all tenants.")]
Can = Annotated[list[str], typer.Option(help="Role (viewer, operator, editor, admin, auditor) or verb. Repeatable.")]
GrantedJobs = Annotated[
    list[str] | None, typer.Option(help="Name or pattern of a job, e.g. 'report.*'. Repeatable. Default: all.")
]
ForSeconds = Annotated[float | None, Duration(least=0), typer.Option("--for", help="End after this time, e.g. 5m.")]


def read_payload(text: str) -> Any:
    """A ``--payload`` argument: JSON text, or ``-`` for standard input."""
    try:
        return parse_json(sys.stdin.read() if text == "-" else text)
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(
            "payload", text, f"is not JSON ({problem})", """write e.g. --payload '{"day": 1}'"""
        ) from None


def payload_of(text: str | None) -> dict[str, Any]:
    """The payload as a keyword of the SDK; none if it was not given."""
    return {} if text is None else {"payload": read_payload(text)}


def read_tags(pairs: Iterable[str]) -> dict[str, str]:
    """``key=value`` pairs. Raises InvalidInput."""
    tags = {}
    for pair in pairs:
        key, equals, tags[key] = pair.partition("=")
        if not equals:
            raise InvalidInput("tags", pair, "has no value", "write key=value")
    return tags


def tags_given(pairs: Iterable[str] | None) -> dict[str, Any]:
    """The argument ``tags`` of a run, if there are some."""
    return {"tags": read_tags(pairs)} if pairs else {}


def tag_of(text: str) -> tuple[str, str] | str:
    """A ``--tag`` option: ``key=value``, or a key for any value."""
    key, equals, value = text.partition("=")
    return (key, value) if equals else text


def find_here(packages: Sequence[str]) -> None:
    """Let packages be imported from the working directory."""
    here = str(Path.cwd())
    if packages and here not in sys.path:
        sys.path.insert(0, here)


def load_jobs(packages: Sequence[str]) -> Registry:
    """The jobs of some packages. Raises Misconfigured without any, JobError for one that cannot be imported."""
    if not packages:
        raise Misconfigured("no jobs; name the package that declares them: --jobs my.package, or QUARTERJACK_JOBS")
    find_here(packages)
    for package in packages:
        load(package, default_registry)
    return default_registry


def option(name: str, kind: Any, default: Any, *what: Any) -> inspect.Parameter:
    """A keyword parameter for ``with_parameters``. ``what`` is a ``typer.Option``, after a marker of ``typed`` if it has one."""
    annotated = Annotated[(kind, *what)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotated)


def with_parameters(
    function: Command, added: Iterable[inspect.Parameter], call: Command, *, supplied: str | None = None
) -> Command:
    """``call``, with the name, help and parameters of ``function`` and the ``added`` ones behind them.

    ``supplied`` is a parameter of ``function`` that ``call`` supplies.
    """
    signature = inspect.signature(function, eval_str=True)
    own = [
        one
        for one in signature.parameters.values()
        if one.kind is not inspect.Parameter.VAR_KEYWORD and one.name != supplied
    ]
    return with_signature(functools.wraps(function)(call), [*own, *added])


def with_signature(command: Command, parameters: Iterable[inspect.Parameter]) -> Command:
    """The command with these parameters, for typer to read."""
    result: Any = command
    result.__signature__ = inspect.Signature(list(parameters))
    result.__annotations__ = {one.name: one.annotation for one in result.__signature__.parameters.values()}
    return result  # type: ignore[no-any-return]


def matching(nothing: str) -> Callable[[Command], Command]:
    """A decorator for a command that searches: it gets ``--expect``, and prints ``nothing`` if ``Shell.matched`` gets 0.

    The last page of a listing may be empty: with a cursor there was something.
    """

    def decorate(function: Command) -> Command:
        def call(*, shell: Shell, expect: bool, **given: Any) -> Any:
            is_first = given.get("cursor") is None
            told = replace(shell, nothing=nothing if is_first else "nothing further", expects=expect and is_first)
            return function(shell=told, **given)

        help_ = f"Exit code {int(ExitCode.NOT_FOUND)} if nothing matches."
        return with_parameters(function, [option("expect", bool, False, typer.Option("--expect", help=help_))], call)

    return decorate


def with_shell(function: Command) -> Command:
    """The command as typer calls it: the shell comes from the context, ``--json`` may stand behind the command, too, and the shell
    completes names.

    Its times and durations are read (see ``typed``). An error names options and commands instead of the SDK's parameters and methods:
    see ``wording``.
    """
    own = inspect.signature(function, eval_str=True).parameters
    markers = markers_of(own.values())
    takes_zone = any(isinstance(one, TypedTime) for one in markers.values()) and "timezone" not in own

    def call(*, context: typer.Context, as_json_here: bool, **given: Any) -> Any:
        words = Wording(context.command.params, context.params)
        given, anchor = anchor_of(given, markers)
        shell = replace(context.obj, as_json=context.obj.as_json or as_json_here, words=words, anchor=anchor)
        try:
            given |= TypedReader(shell, given, words.typed).read(markers)
            given = {name: value for name, value in given.items() if name in own}
            return function(shell=shell, **given)
        except QuarterjackError as problem:
            raise words.error(problem) from problem

    zone_help = (
        "IANA time zone of times that name none, e.g. Europe/Berlin. Default of words such as 'tomorrow 09:00': the schedule's, or "
        "this machine's. A date needs one."
    )
    added = [
        inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
        *([option(ZONE, str | None, None, typer.Option(help=zone_help))] if takes_zone else []),
        option("as_json_here", bool, False, typer.Option("--json", help="Print one JSON object per line.")),
    ]
    command = with_parameters(function, added, call, supplied="shell")
    shown = map(as_text, inspect.signature(command).parameters.values())
    return with_signature(command, (completing(function.__name__, one) for one in shown))


class TypedCommand(typer.core.TyperCommand):
    """A command whose arguments may be times ago: ``-3d`` is no option."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help, in which the two names of a switch stand below each other: side by side they are cut at 80 columns."""
        shown = copy(self)
        shown.params = [*map(_stacked, self.params)]
        super(TypedCommand, shown).format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Stand such arguments behind ``--``, with all others, if there are any."""
        options, arguments, left = list[str](), list[str](), list(args)
        takes_value = {name for one in self.params if not getattr(one, "is_flag", True) for name in one.opts}
        while left:
            word = left.pop(0)
            if word == "--":
                arguments += left
                break
            if is_ago(word) or not word.startswith("-") or word == "-":
                arguments.append(word)
                continue
            options.append(word)
            if word in takes_value and left:
                options.append(left.pop(0))
        return super().parse_args(ctx, [*options, "--", *arguments] if any(map(is_ago, arguments)) else args)


def _stacked(param: Any) -> Any:
    if not param.secondary_opts:
        return param
    shown = copy(param)
    shown.opts, shown.secondary_opts = ["\n".join([*param.opts, *param.secondary_opts])], []
    return shown


def everywhere(app: typer.Typer) -> typer.Typer:
    """Give every command of an app and its groups its shell."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = with_shell(command.callback)
            command.cls = TypedCommand
            command.context_settings = {**(command.context_settings or {}), "help_option_names": HELP}
    for group in app.registered_groups:
        group.context_settings = {"help_option_names": HELP}
        if group.typer_instance is not None:
            everywhere(group.typer_instance)
    return app

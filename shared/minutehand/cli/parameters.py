"""Parameters that commands share, how their values are read, and the decorators that add them to the signature that typer reads."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from minutehand.cli.moments import is_relative, parse_moment
from minutehand.cli.wording import Wording
from minutehand.domain.payload import parse_json
from minutehand.errors import InvalidInput, MinutehandError, Misconfigured
from minutehand.jobs import Registry, default_registry, load

if TYPE_CHECKING:
    from minutehand import Page

Command = Callable[..., Any]
_ANCHORED = re.compile(r"(?P<cursor>.*~[0-9a-f]{16})@(?P<now>\d{1,15})", re.DOTALL)

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


def read_moment(text: str | None, option: str) -> datetime | None:
    """A time option that may be left out; ``option`` is its name without the hyphens."""
    return None if text is None else read_instant(text, f"--{option}")


def read_instant(text: str, field: str) -> datetime:
    """A time argument: see ``moments``."""
    return parse_moment(text, field, datetime.now(UTC))


class ListedTimes:
    """The time options of a listing, and its cursor.

    Relative times, as ``-3h``, mean what they meant for the first page: the cursor that is printed ends with ``@`` and the UTC ms at
    which they were read. The SDK gets the cursor without that.
    """

    def __init__(self, cursor: str | None) -> None:
        found = _ANCHORED.fullmatch(cursor or "")
        self.cursor = found["cursor"] if found else cursor
        self._now = int(found["now"]) if found else int(datetime.now(UTC).timestamp() * 1_000)
        self._is_relative = False

    def read(self, text: str | None, option: str) -> datetime | None:
        """A time option that may be left out; ``option`` is its name without the hyphens."""
        if text is None:
            return None
        self._is_relative = self._is_relative or is_relative(text)
        return parse_moment(text, f"--{option}", datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self._now))

    def anchored(self, page: Page) -> Page:
        """The page, with the cursor to print."""
        is_needed = self._is_relative and page.cursor is not None
        return replace(page, cursor=f"{page.cursor}@{self._now}") if is_needed else page


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
        raise Misconfigured("no jobs; name the package that declares them: --jobs my.package, or MINUTEHAND_JOBS")
    find_here(packages)
    for package in packages:
        load(package, default_registry)
    return default_registry


def option(name: str, kind: Any, default: Any, what: Any) -> inspect.Parameter:
    """A keyword parameter for ``with_parameters``; ``what`` is a ``typer.Option``."""
    annotated = Annotated[kind, what]
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
    result: Any = functools.wraps(function)(call)
    result.__signature__ = signature.replace(parameters=[*own, *added])
    result.__annotations__ = {one.name: one.annotation for one in result.__signature__.parameters.values()}
    return result  # type: ignore[no-any-return]


def with_shell(function: Command) -> Command:
    """The command as typer calls it: the shell comes from the context, and ``--json`` may stand behind the command, too.

    An error names options and commands instead of the SDK's parameters and methods: see ``wording``.
    """

    def call(*, context: typer.Context, as_json_here: bool, **given: Any) -> Any:
        shell, words = context.obj, Wording(context.command.params, context.params)
        try:
            return function(shell=replace(shell, as_json=shell.as_json or as_json_here, words=words), **given)
        except MinutehandError as problem:
            raise words.error(problem) from problem

    added = [
        inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
        option("as_json_here", bool, default=False, what=typer.Option("--json", help="One JSON object a line.")),
    ]
    return with_parameters(function, added, call, supplied="shell")


def everywhere(app: typer.Typer) -> typer.Typer:
    """Give every command of an app and its groups its shell."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = with_shell(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            everywhere(group.typer_instance)
    return app

"""The command line's root: its options and its errors. A command's module is imported when the command is called."""

from __future__ import annotations

import errno
import io
import logging
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from quarterjack.cli.commands import COMMANDS
from quarterjack.cli.exits import ExitCode, NotConfirmed, code_of
from quarterjack.cli.parameters import HELP, everywhere
from quarterjack.cli.shell import Shell, print_json
from quarterjack.domain.names import check_tenant
from quarterjack.domain.tenants.caller import checked_reason, claimed_actor
from quarterjack.errors import (
    ExpressionError,
    Forbidden,
    InvalidInput,
    LimitExceeded,
    Misconfigured,
    QuarterjackError,
    Throttled,
    UnknownJobWarning,
    shorten,
)
from quarterjack.local_installations import using
from quarterjack.settings import from_environment
from quarterjack.terminal import printable
from quarterjack.values import replace
from quarterjack.version import DOCUMENTATION, VERSION

_MARKUP: Any = "rich"
_LOCAL = "--local"
_PREFIX = re.compile("[A-Za-z0-9_-]{1,60}")
# click's base class of usage errors. Some releases of typer contain a copy of click.
_USAGE: type[BaseException] = typer.BadParameter.__mro__[2]


@cache
def command(name: str) -> Any:
    """The command of that name, imported. Cached: ``everywhere`` changes a group, and must do so once."""
    entry = COMMANDS[name]
    module = import_module(f"quarterjack.cli.{entry.home}")
    alone = typer.Typer(rich_markup_mode=_MARKUP, callback=lambda: None)  # with a callback it is a group, also of one
    found = getattr(module, name, None) or module.app
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
            self.commands[name] = typer.core.TyperCommand(
                name, help=entry.help, rich_markup_mode=_MARKUP, rich_help_panel=entry.panel
            )

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The root's options, of which ``--local`` may stand without a value: the word after it is none, since a command follows."""
        takes_value = {word for one in self.params if not getattr(one, "is_flag", True) for word in one.opts}
        words, left = list[str](), list(args)
        while left and left[0].startswith("-"):
            word = left.pop(0)
            words.append(f"{word}=" if word == _LOCAL else word)
            if word in takes_value and word != _LOCAL and left:
                words.append(left.pop(0))
        return super().parse_args(ctx, [*words, *left])

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the arguments name, imported, and the arguments left to it."""
        name, listed, left = super().resolve_command(ctx, args)
        return name, command(name) if name in COMMANDS else listed, left


app = typer.Typer(
    cls=LazyGroup,
    help="Run this job at that time, once, and tell me what happened.",
    epilog=f"Start with `quarterjack local`: everything on this machine, with examples.\n\nDocumentation: {DOCUMENTATION}.",
    no_args_is_help=True,
    context_settings={"help_option_names": HELP},
    pretty_exceptions_enable=False,
    rich_markup_mode=_MARKUP,
)


def _version(asked: bool) -> None:  # noqa: FBT001 (typer calls it)
    if asked:
        typer.echo(f"quarterjack {VERSION}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    tenant: Annotated[
        str | None, typer.Option(help="Tenant that owns the schedules and runs. Default: QUARTERJACK_TENANT.")
    ] = None,
    prefix: Annotated[
        str | None, typer.Option(help="Name prefix of tables and queues. Default: QUARTERJACK_PREFIX.")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="Endpoint URL of a local cloud. Default: AWS_ENDPOINT_URL, or AWS.")
    ] = None,
    local: Annotated[
        str | None,
        typer.Option(
            _LOCAL,
            metavar="[=PREFIX|PORT]",
            help="Use the installation that `quarterjack local` runs on this machine. With several, name its prefix or port.",
        ),
    ] = None,
    actor: Annotated[
        str | None, typer.Option(help="Actor recorded in the audit log, e.g. alice@acme. Default: QUARTERJACK_ACTOR.")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Reason of the change, recorded in the audit log.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line instead of tables.")] = False,
    version: Annotated[  # noqa: ARG001 (its callback has answered)
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
) -> None:
    if local is not None:
        if endpoint:
            raise InvalidInput("--endpoint", endpoint, "does not go with --local", "leave one of them out")
        context.with_resource(using(local))
    found = from_environment()
    field, prefix = ("--prefix", prefix) if prefix else ("QUARTERJACK_PREFIX", found.prefix)
    if not _PREFIX.fullmatch(prefix):
        raise InvalidInput(field, prefix, "cannot begin a name", "use 1 to 60 characters of A-Z a-z 0-9 _ -")
    try:
        owner = check_tenant(tenant or found.tenant)
    except InvalidInput as problem:
        raise problem.about("--tenant" if tenant else "QUARTERJACK_TENANT") from None
    claimed_actor(actor, "--actor")
    settings = replace(found.at(endpoint), tenant=owner, prefix=prefix, actor=actor or found.actor)
    _ENDPOINT.set(settings.endpoint)
    context.obj = Shell(settings, as_json, checked_reason(reason, "--reason"), local)


# A refusal is the command's error; without a handler Python would print the log line's name before it.
logging.getLogger("quarterjack.owner.access").addHandler(logging.NullHandler())

_ENDPOINT: ContextVar[str | None] = ContextVar("endpoint", default=None)  # of the command that runs
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def run(words: Sequence[str]) -> int:
    """Execute a command line. Returns its exit code. An error is one line on standard error, as JSON if ``--json`` is given."""
    as_json = "--json" in words
    _ENDPOINT.set(None)
    for stream in (sys.stdout, sys.stderr):  # a job's result may have half of a character
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        _check_text(words)
        with _warnings_shown(as_json=as_json):
            code = app(list(words), prog_name="quarterjack", standalone_mode=False)
    except QuarterjackError as problem:
        return _failed(problem, as_json=as_json)
    except typer.Abort:
        return _failed(NotConfirmed("not confirmed: nothing was done"), as_json=as_json)
    except OSError as problem:  # of standard output: files are told by the command that writes them
        if problem.errno not in _NO_ROOM or problem.filename is not None:
            raise
        what = f"the output cannot be written ({problem.strerror}); make room, or send it elsewhere"
        return _failed(Misconfigured(what), as_json=as_json)
    except Exception as problem:
        if not isinstance(problem, _USAGE):
            raise
        usage: Any = problem
        if as_json:
            described = {"error": "Usage", "message": usage.format_message(), "exit_code": ExitCode.USAGE}
            print_json(described, to=sys.stderr)
        else:
            usage.message = printable(usage.message)
            import_module("typer.rich_utils").rich_format_error(
                usage
            )  # slow to import, and needed for nothing else here
        return ExitCode.USAGE
    return code if isinstance(code, int) else ExitCode.DONE


@contextmanager
def _warnings_shown(*, as_json: bool) -> Iterator[None]:
    """A job that no worker knows is a line on standard error, as JSON if ``--json`` is given."""

    def show(message: Warning | str, category: type[Warning], filename: str, lineno: int, *more: Any) -> None:
        if not issubclass(category, UnknownJobWarning):
            before(message, category, filename, lineno, *more)
        elif as_json:
            print_json({"warning": str(message)}, to=sys.stderr)
        else:
            sys.stderr.write(f"warning: {printable(str(message))}\n")

    with warnings.catch_warnings():
        before = warnings.showwarning
        warnings.simplefilter("always", UnknownJobWarning)
        warnings.showwarning = show  # type: ignore[assignment]  # the rest goes on as it came
        yield


def _check_text(words: Sequence[str]) -> None:
    """Bytes that are no UTF-8 could be neither stored nor printed. Raises InvalidInput."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InvalidInput(
                "argument", word, "is not text in UTF-8", "check the encoding of your terminal"
            ) from None


_TOLD: Mapping[type[QuarterjackError], Sequence[str]] = {  # what these errors know beside their message
    Forbidden: ("principal", "verb", "tenant", "job", "command"),
    Throttled: ("tenant", "limit", "per_second", "burst", "most", "seconds"),
    LimitExceeded: ("tenant", "limit", "value", "most", "remedy", "command"),
}


def _failed(problem: QuarterjackError, *, as_json: bool) -> ExitCode:
    """Print an error: as JSON with fields for programs."""
    code = code_of(problem)
    endpoint = _ENDPOINT.get() if code is ExitCode.UNAVAILABLE else None
    if not as_json:
        at = "" if endpoint is None else f" (at {endpoint}, by --endpoint or AWS_ENDPOINT_URL)"
        sys.stderr.write(f"error: {printable(str(problem) + at)}\n")
        command_of_operator = getattr(problem, "command", None)
        if command_of_operator is not None:
            sys.stderr.write(f"operators: {printable(command_of_operator)}\n")
        return code
    described: dict[str, Any] = {"error": type(problem).__name__, "message": str(problem), "exit_code": code}
    if endpoint is not None:
        described["endpoint"] = endpoint
    if isinstance(problem, InvalidInput):
        described |= {"field": problem.field, "value": shorten(problem.value), "remedy": problem.remedy}
    if isinstance(problem, ExpressionError):
        described |= {"position": problem.position}
    for kind, names in _TOLD.items():
        if isinstance(problem, kind):
            told = {name: getattr(problem, name) for name in names}
            described |= {name: value for name, value in told.items() if value is not None}
    print_json(described, to=sys.stderr)
    return code


def whole() -> Any:
    """The root with every command imported, for the reference pages and tests."""
    root: Any = typer.main.get_command(app)
    root.commands |= {name: command(name) for name in COMMANDS}
    return root

"""Commands for a whole tenant: ``freeze``, ``thaw``, ``frozen``, ``queues``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from minutehand.cli.output import print_json, read_instant, text_of
from minutehand.cli.parameters import Yes
from minutehand.cli.shell import Shell, of


def freeze(
    context: typer.Context,
    until: Annotated[str, typer.Argument(help="E.g. 2026-12-24T18:00:00Z.")],
    note: Annotated[str | None, typer.Option(help="The reason, as text.")] = None,
    *,
    yes: Yes = False,
) -> None:
    """Start no run of the tenant until this time. Running attempts continue; due runs start afterwards."""
    shell, end = of(context), read_instant(until, "until")
    shell.confirm(f"Stop all starts of tenant {shell.settings.tenant} until {text_of(end)}", yes=yes)
    shell.scheduler().freeze(end, note=note)
    _print_freeze(shell, shell.scheduler().frozen())


def thaw(context: typer.Context) -> None:
    """End the freeze now: runs that it delayed start within five minutes."""
    of(context).scheduler().thaw()
    _print_freeze(of(context), None)


def frozen(context: typer.Context) -> None:
    """Print whether the tenant is frozen, and until when."""
    _print_freeze(of(context), of(context).scheduler().frozen())


def queues(context: typer.Context) -> None:
    """List the queues that exist."""
    shell = of(context)
    for name in shell.scheduler().queues():
        if shell.as_json:
            print_json({"name": name})
        else:
            shell.say(name)


def _print_freeze(shell: Shell, until: datetime | None) -> None:
    if shell.as_json:
        print_json({"frozen_until": until})
    else:
        shell.say("not frozen" if until is None else f"frozen until {text_of(until)}")

"""Commands for a whole tenant: ``freeze``, ``thaw``, ``frozen``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from quarterjack.cli.parameters import Reason, Yes
from quarterjack.cli.shell import Shell, text_of
from quarterjack.cli.typed import COMING


def freeze(
    shell: Shell,
    until: Annotated[datetime, COMING, typer.Argument(help="E.g. 2h, 'tomorrow 09:00', or 2026-12-24T18:00:00Z.")],
    reason: Reason = None,
    *,
    yes: Yes = False,
) -> None:
    """Start no run of the tenant until this time. Running attempts continue; due runs start afterwards."""
    shell.confirm(f"Stop all starts of tenant {shell.settings.tenant} until {text_of(until)}", yes=yes)
    shell.scheduler.freeze(until, reason=reason)
    frozen(shell)


def thaw(shell: Shell) -> None:
    """End the freeze now: runs that it delayed start within five minutes."""
    shell.scheduler.thaw()
    _print_freeze(shell, None)


def frozen(shell: Shell) -> None:
    """Print whether the tenant is frozen, and until when."""
    _print_freeze(shell, shell.scheduler.frozen())


def _print_freeze(shell: Shell, until: datetime | None) -> None:
    shell.answer({"frozen_until": until}, "not frozen" if until is None else f"frozen until {text_of(until)}")

"""Output of processes: a banner and readable log lines at a terminal, else JSON lines; and metrics on standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from quarterjack import logs
from quarterjack.cli.shell import Shell
from quarterjack.clock import system_clock
from quarterjack.daemon.roles import service_of
from quarterjack.settings import Settings
from quarterjack.signals.sinks import EmbeddedLines, Sink
from quarterjack.version import VERSION

_NAMED = 8  # jobs
_STOP = "Ctrl-C, or SIGTERM"


def configure_logs(shell: Shell) -> bool:
    """Begin to log to standard error. Whether it is a terminal, for which a banner is due."""
    readable = sys.stderr.isatty() and not shell.as_json
    logs.configure(sys.stderr, readable=readable, colours=readable and not os.environ.get("NO_COLOR"))
    return readable


def show_banner(shell: Shell, role: str, facts: Mapping[str, str], *, stop: str = _STOP) -> None:
    """Print the role, the facts about its work, the endpoint, and how to stop it, on standard error."""
    today = datetime.now(UTC)
    shown = {
        **facts,
        "tenants": f"all of installation {shell.settings.prefix!r}",
        "endpoint": endpoint_of(shell.settings),
        "stop": stop,
        "times": f"UTC, from {today:%A, %Y-%m-%d}",
    }
    width = max(map(len, shown)) + 2
    shell.say(f"quarterjack {VERSION}: {role}", style="bold", stderr=True)
    for name, text in shown.items():
        shell.say(f"  {name:<{width}}{text}", stderr=True)


def endpoint_of(settings: Settings) -> str:
    """Where the installation is."""
    return settings.endpoint or " ".join(filter(None, ("AWS", settings.region)))


def names_of(jobs: Sequence[str]) -> str:
    """The first names of some jobs, and how many there are besides."""
    shown = ", ".join(jobs[:_NAMED])
    return f"{shown} and {len(jobs) - _NAMED} more" if len(jobs) > _NAMED else shown or "none"


def metric_lines(settings: Settings, part: str, *, wanted: bool = True) -> list[Sink]:
    """The sink of a role that writes its metrics, as the service `<prefix>-<part>`; none unless they are ``wanted``."""
    return [EmbeddedLines(service_of(settings, part), _write, system_clock)] if wanted else []


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()

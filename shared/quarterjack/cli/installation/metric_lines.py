"""Metrics of a process on its standard output, in CloudWatch's embedded format."""

from __future__ import annotations

import sys

from quarterjack.clock import system_clock
from quarterjack.daemon.roles import service_of
from quarterjack.settings import Settings
from quarterjack.signals.sinks import EmbeddedLines, Sink


def metric_lines(settings: Settings, part: str, *, wanted: bool = True) -> list[Sink]:
    """The sink of a role that writes its metrics, as the service `<prefix>-<part>`; none unless they are ``wanted``."""
    return [EmbeddedLines(service_of(settings, part), _write, system_clock)] if wanted else []


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()

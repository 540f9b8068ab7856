"""The auditor as a process that ends."""

from __future__ import annotations

from minutehand.auditor.audit import AuditReport, audit
from minutehand.daemon.connected import connected
from minutehand.ports.services import Services
from minutehand.services import system_clock
from minutehand.settings import Settings


def run_auditor(where: Settings | Services) -> AuditReport:
    """Audit once."""
    return audit(connected(where), clock=system_clock)

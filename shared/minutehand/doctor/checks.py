"""The order of the checks: prerequisites first; a check of a missing resource is left out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from minutehand.clock import system_clock
from minutehand.doctor import backlog, installation, permissions, schedules, ticker
from minutehand.doctor.context import AwsProbe, DoctorContext, Finding, Severity, warn
from minutehand.errors import MinutehandError
from minutehand.ports.clock import Clock
from minutehand.settings import Settings

SAMPLE = 50  # schedules whose chains are checked

Check = Callable[[DoctorContext], Iterator[Finding]]
_FIRST: tuple[Check, ...] = (installation.configuration, installation.access)
_THEN: tuple[Check, ...] = (
    installation.tables,
    installation.queues,
    installation.bucket,
    permissions.permissions,
    ticker.clock,
    ticker.ticker,
    ticker.quarantined,
    backlog.backpressure,
    schedules.chains,
    schedules.incidents,
    backlog.backlog,
    schedules.jobs,
    schedules.isolated,
)


def run_checks(
    settings: Settings,
    *,
    jobs: Sequence[str] = (),
    sample: int = SAMPLE,
    clock: Clock = system_clock,
    chance: random.Random | None = None,
) -> Iterator[Finding]:
    """Check an installation. Yields each finding when its check is done.

    ``jobs`` are packages whose jobs should be importable. Chains are checked for ``sample`` schedules of the tenant, selected by
    ``chance``. Nothing is written: permissions to write are tried with conditions that no row can meet.
    """
    context = DoctorContext(
        settings=settings,
        probe=AwsProbe(settings=settings, clock=clock),
        clock=clock,
        packages=tuple(jobs),
        sample=sample,
        chance=random.Random() if chance is None else chance,
    )
    for check in _FIRST:
        found = list(check(context))
        yield from found
        if any(finding.verdict is Severity.FAIL for finding in found):
            return  # every further check would fail for the same reason
    for check in _THEN:
        try:
            yield from check(context)
        except MinutehandError as problem:  # AWS refused a read: the other checks may still find something
            yield warn(check.__name__, f"not checked: {problem}", "see tables and permissions")

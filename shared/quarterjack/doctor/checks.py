"""The order of the checks: prerequisites first; a check of a missing resource is left out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from quarterjack.clock import system_clock
from quarterjack.doctor import account, crowds, flow, installation, releases, schedules
from quarterjack.doctor.context import AwsProbe, DoctorContext, Finding, Severity, warn
from quarterjack.errors import QuarterjackError
from quarterjack.ports.services import Clock
from quarterjack.settings import Settings
from quarterjack.values import replace

Check = Callable[[DoctorContext], Iterator[Finding]]
_FIRST: tuple[Check, ...] = (installation.configuration, installation.access)
_THEN: tuple[Check, ...] = (
    releases.variables,
    installation.tables,
    installation.queues,
    installation.bucket,
    installation.permissions,
    schedules.tenant,
    flow.clock,
    flow.ticker,
    flow.quarantined,
    flow.backpressure,
    flow.shared_queues,
    flow.versions,
    schedules.chains,
    schedules.incidents,
    releases.releases,
    flow.backlog,
    flow.history,
    schedules.jobs,
    schedules.grants,
    schedules.secrets,
    schedules.isolation,
    account.concurrency,
    account.alarms,
    crowds.instants,
)


def run_checks(
    settings: Settings,
    *,
    jobs: Sequence[str] = (),
    sample: int = 50,
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
        packages=jobs,
        sample=sample,
        chance=chance or random.Random(),
    )
    for check in (*_FIRST, *_THEN):
        verdicts = set()
        try:
            for finding in check(context):
                verdicts.add(finding.verdict)
                yield replace(finding, check=check.__name__)
        except QuarterjackError as problem:  # AWS refused a read: the other checks may still find something
            yield replace(warn(f"not checked: {problem}", "see tables and permissions"), check=check.__name__)
        if check in _FIRST and Severity.FAIL in verdicts:
            return  # every further check would fail for the same reason

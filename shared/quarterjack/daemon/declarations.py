"""A worker that has started applies the schedules that its packages declare, in a thread of its own: its runs do not wait for that."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from quarterjack.domain.tenants.caller import role
from quarterjack.domain.times import SECOND
from quarterjack.errors import Conflict, InvalidInput, QuarterjackError, Unavailable
from quarterjack.jobs import Registry
from quarterjack.ports.services import Clock, Services
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.sdk.schedules.applied import ApplyReport, ApplyTurn, StartApplication

log = logging.getLogger(__name__)

_AGAIN = 30 * SECOND  # ms after a service was unavailable
_BY_HAND = "`quarterjack apply PACKAGE` makes this set the current one again"


class DeclarationApplier:
    """Applies the declarations of ``packages`` for one tenant. Raises InvalidInput without packages."""

    def __init__(
        self, services: Services, packages: Sequence[str], jobs: Registry, *, tenant: str, by: str, clock: Clock
    ) -> None:
        if not packages:
            remedy = "name a package with --jobs, or QUARTERJACK_JOBS"
            raise InvalidInput("apply", True, "was asked of a worker without a package", remedy)
        # What a worker's package declares was granted with the deployment of the worker.
        scheduler = Scheduler(tenant, jobs=jobs, services=services, clock=clock).with_caller(role("worker"))
        self._sets = [StartApplication(scheduler, one, jobs, by=by) for one in dict.fromkeys(packages)]
        self._clock = clock

    def run(self, stop: threading.Event) -> None:
        """Until every set is applied, by this worker or another, or cannot be, or ``stop``. Raises nothing."""
        waiting = self._sets
        while waiting and not stop.is_set():
            later = [again for one in waiting if (again := self._look(one)) is not None]
            waiting = [one for one, _ in later]
            if later:
                stop.wait(max(min(at for _, at in later) - self._clock(), SECOND) / SECOND)

    def _look(self, found: StartApplication) -> tuple[StartApplication, int] | None:
        """One look at a set; UTC ms of the next one, None: there is none."""
        about = {"package": found.package}
        try:
            report = found.look()
        except (Conflict, Unavailable) as problem:
            log.warning("declarations.unavailable", extra=about | {"error": str(problem)})
            return found, self._clock() + _AGAIN
        except QuarterjackError as problem:
            log.error("declarations.not_applied", extra=about | {"error": str(problem)})
        except Exception:  # whatever it is, the worker works on
            log.exception("declarations.not_applied", extra=about)
        else:
            _tell(report, about)
            if report.turn is ApplyTurn.ELSEWHERE and report.until is not None:
                return found, report.until
        return None


def _tell(report: ApplyReport, about: dict[str, str]) -> None:
    if report.turn is ApplyTurn.REPLACED:
        log.warning("declarations.replaced", extra=about | {"remedy": _BY_HAND})
    elif report.turn is ApplyTurn.APPLIED:
        log.info("declarations.applied", extra=about | {"schedules": len(report.changed)})
    for name, why in report.left.items():
        log.error("declarations.left", extra=about | {"schedule": name, "error": why})

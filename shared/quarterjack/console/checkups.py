"""The doctor's findings, asked for in the background: its checks take seconds, and no page waits for them.

A process runs at most one check-up of a tenant at a time, and remembers the last one. Pages show what has been found so far.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from quarterjack.settings import Settings

log = logging.getLogger(__name__)

FRESH = timedelta(minutes=30)  # so old a check-up is not repeated unless somebody asks for it
_REMEMBERED = 50  # tenants
_BAD = ("fail", "warn")

Examine = Callable[[Settings], Iterable[Any]]


def _examine(settings: Settings) -> Iterable[Any]:
    from quarterjack.doctor import run_checks  # noqa: PLC0415 (it loads boto3)

    return run_checks(settings)


@dataclass(kw_only=True)
class Checkup:
    """One run of the doctor, whose findings grow until it is over."""

    began_at: datetime
    findings: list[Any] = field(default_factory=list)
    is_over: bool = False
    broke_off: bool = False  # by an error of the doctor itself, which is logged

    @property
    def bad(self) -> Sequence[Any]:
        """The problems and warnings, the worst first."""
        return sorted((one for one in self.findings if one.verdict in _BAD), key=lambda one: _BAD.index(one.verdict))

    def is_fresh(self, now: datetime) -> bool:
        """Whether it need not be repeated yet."""
        return not self.is_over or now - self.began_at < FRESH


class Checkups:
    """The last check-up of each tenant. From any thread."""

    def __init__(self, examine: Examine = _examine) -> None:
        self._examine, self._last, self._lock = examine, dict[str, Checkup](), threading.Lock()

    def last(self, settings: Settings, now: datetime) -> Checkup:
        """The last one of the tenant of the settings; where it is too old, or there is none, a new one, which has just begun."""
        return self._of(settings, now, lambda known: known.is_fresh(now))

    def begin(self, settings: Settings, now: datetime) -> Checkup:
        """A new one, unless one is under way."""
        return self._of(settings, now, lambda known: not known.is_over)

    def _of(self, settings: Settings, now: datetime, will_do: Callable[[Checkup], bool]) -> Checkup:
        with self._lock:
            known = self._last.get(settings.tenant)
            if known is not None and will_do(known):
                return known
            self._last.pop(settings.tenant, None)
            while len(self._last) >= _REMEMBERED:
                self._last.pop(next(iter(self._last)))
            made = self._last[settings.tenant] = Checkup(began_at=now)
        threading.Thread(target=self._run, args=(made, settings), name="quarterjack-doctor", daemon=True).start()
        return made

    def _run(self, checkup: Checkup, settings: Settings) -> None:
        try:
            for finding in self._examine(settings):
                checkup.findings.append(finding)
        except Exception:  # whatever it is, the page says that the doctor broke off
            log.exception("console.doctor_failed")
            checkup.broke_off = True
        finally:
            checkup.is_over = True

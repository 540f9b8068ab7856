"""A night that CloudWatch sees, as late as it may: each lateness has an evaluator of its own over the same figures."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tests.support.nights.night import PREFIX, Minute, Night
from tests.support.signals.evaluator import ALARM, Evaluator
from tests.support.signals.figures import FigureStore
from tests.support.signals.lateness import Lateness

_AUDIT = 37  # minutes past the hour
_PAST = 6 * 60  # minutes since the installation was deployed


class Watched:
    """A night whose minutes are evaluated at each of these latenesses.

    ``pages``: by lateness, the alarms that began to page, each with the minutes that were over.
    """

    def __init__(
        self, night: Night, resources: Mapping[str, Mapping[str, Any]], latenesses: Mapping[str, Lateness]
    ) -> None:
        self.night, self.figures, self.minute = night, FigureStore(), 0
        self.cloudwatches = {
            name: Evaluator(resources, figures=self.figures, lateness=lateness) for name, lateness in latenesses.items()
        }
        self.pages: dict[str, list[tuple[int, str]]] = {name: [] for name in latenesses}
        for minute in range(-_PAST, 0):  # ticks and audits have been
            self._had("ticker", "Ticks", minute)
            if (minute - _AUDIT) % 60 == 0:
                self._had("auditor", "Audits", minute)

    def _had(self, part: str, name: str, minute: int) -> None:
        self.figures.add(("Quarterjack", name, (("service", f"{PREFIX}-{part}"),)), minute, [1])

    def live(self, minutes: int) -> None:
        """Let minutes pass."""
        for _ in range(minutes):
            self.night.live(1)
            self._measure(self.night.minutes[-1])
            self.minute += 1
            for name, cloudwatch in self.cloudwatches.items():
                told = [one.alarm.removeprefix(f"{PREFIX}-") for one in cloudwatch.evaluate() if one.state == ALARM]
                self.pages[name] += [(self.minute, alarm) for alarm in told]

    def _measure(self, minute: Minute) -> None:
        for line in minute.lines:
            self.figures.add_line(self.minute, line)
        for key, value in minute.figures.items():
            self.figures.add(key, self.minute, [value])

    def paged(self, *, but: Collection[str] = ()) -> dict[str, list[str]]:
        """By lateness, the alarms that began to page."""
        return {name: [alarm for _, alarm in pages if alarm not in but] for name, pages in self.pages.items()}

    def pages_of(self, alarm: str) -> dict[str, list[int]]:
        """By lateness, the minutes in which an alarm began to page."""
        return {name: [minute for minute, one in pages if one == alarm] for name, pages in self.pages.items()}

    def states(self, alarm: str) -> dict[str, str]:
        """By lateness, the state of an alarm."""
        return {name: one.states[f"{PREFIX}-{alarm}"] for name, one in self.cloudwatches.items()}

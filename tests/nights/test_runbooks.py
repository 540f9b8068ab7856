"""Each fault is found by the alarm that tells of it, in its time, and by no other; what its page says cures it, and the alarm ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.nights.night import PREFIX, Night
from tests.support.nights.operator import Operator
from tests.support.nights.scenes import SCENES, Scene
from tests.support.parts import in_turn
from tests.support.signals.evaluator import ALARM, OK, Evaluator

AUDIT = 37  # minutes past the hour
CALM = 65  # minutes before the fault: an hour's windows are full, and an audit has been


class Watched:
    """A night whose minutes CloudWatch sees."""

    def __init__(self, night: Night, resources: Mapping[str, Mapping[str, Any]]) -> None:
        self.night, self.cloudwatch = night, Evaluator(resources)
        for minute in range(-6 * 60, 0):  # it was deployed long ago: ticks and audits have been
            self._had("ticker", "Ticks", minute)
            if (minute - AUDIT) % 60 == 0:
                self._had("auditor", "Audits", minute)

    def _had(self, part: str, name: str, minute: int) -> None:
        self.cloudwatch.figures.add(("Quarterjack", name, (("service", f"{PREFIX}-{part}"),)), minute, [1])

    def live(self) -> list[str]:
        """A minute; the alarms that page after it."""
        self.night.live(1)
        minute, at = self.night.minutes[-1], self.cloudwatch.minute
        for line in minute.lines:
            self.cloudwatch.figures.add_line(at, line)
        for key, value in minute.figures.items():
            self.cloudwatch.figures.add(key, at, [value])
        return [told.alarm.removeprefix(f"{PREFIX}-") for told in self.cloudwatch.evaluate() if told.state == ALARM]

    def state(self, alarm: str) -> str:
        return self.cloudwatch.states[f"{PREFIX}-{alarm}"]


@in_turn("scene", SCENES, [scene.name for scene in SCENES], of=12)
def test_a_fault_is_found_in_time_by_its_alarm_alone_and_its_page_cures_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, resources: Mapping[str, Mapping[str, Any]]
) -> None:
    night = Night(monkeypatch)
    for name, job in (("a", "note"), ("b", "note"), ("r", "report"), ("g", "train")):
        night.schedule(name, job)
    scene.before(night)
    watched = Watched(night, resources)
    calm = [watched.live() for _ in range(CALM)]
    assert not any(calm), "a calm hour pages nobody"
    cure = scene.fault(night)
    pages: list[tuple[int, str]] = []
    for minute in range(1, scene.within + 1):
        pages += [(minute, alarm) for alarm in watched.live()]
        if any(alarm == scene.alarm for _, alarm in pages):
            break
    assert [alarm for _, alarm in pages if alarm not in scene.follows] == [scene.alarm], (
        f"{pages} in {scene.within} minutes"
    )
    for _ in range(scene.lasts):
        pages += [(0, alarm) for alarm in watched.live()]
    acts = {scene.act: cure} if scene.act and cure is not None else {}
    Operator(night, acts=acts, knows=scene.knows).follow(scene.page)
    if not acts and cure is not None:
        cure()
    for minute in range(1, scene.heals + 1):
        pages += [(minute, alarm) for alarm in watched.live()]
        if watched.state(scene.alarm) == OK:
            break
    assert watched.state(scene.alarm) == OK, f"still in alarm {scene.heals} minutes after the cure"
    for _ in range(45):  # and what follows of it, when nothing hides it any more
        pages += [(0, alarm) for alarm in watched.live()]
    assert [alarm for _, alarm in pages if alarm not in scene.follows] == [scene.alarm]

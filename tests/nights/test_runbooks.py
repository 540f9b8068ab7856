"""Each fault is found by the alarm that tells of it, in its time, and by no other; what its page says cures it, and the alarm ends.

That holds however late CloudWatch has the figures: several of it see one night, each with a lateness of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.nights.night import Night
from tests.support.nights.operator import Operator
from tests.support.nights.scenes import SCENES, Scene
from tests.support.nights.watched import Watched
from tests.support.parts import TURN, in_turn
from tests.support.signals.evaluator import OK
from tests.support.signals.lateness import LATENESSES

CALM = 65  # minutes before the fault: an hour's windows are full, and an audit has been
FEW = ("0 min", "5 min", "drawn by 0")  # of the latenesses, every day
LATER = tuple(
    name for name in LATENESSES if name not in FEW
)  # a third of them in `make check`, another third the next day


@in_turn("scene", SCENES, [scene.name for scene in SCENES], of=12)
def test_a_fault_is_found_in_time_by_its_alarm_alone_and_its_page_cures_it(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    resources: Mapping[str, Mapping[str, Any]],
    request: pytest.FixtureRequest,
) -> None:
    night = Night(monkeypatch)
    for name, job in (("a", "note"), ("b", "note"), ("r", "report"), ("g", "train")):
        night.schedule(name, job)
    scene.before(night)
    names = (*FEW, *LATER[TURN % 3 :: 3]) if request.node.get_closest_marker("check") else FEW
    watched = Watched(night, resources, {name: LATENESSES[name] for name in names})
    watched.live(CALM)
    assert watched.pages == {name: [] for name in names}, "a calm hour pages nobody"
    cure = scene.fault(night)
    for _ in range(scene.within):
        watched.live(1)
        if all(watched.pages_of(scene.alarm).values()):
            break
    expected = {name: [scene.alarm] for name in names}
    assert watched.paged(but=scene.follows) == expected, f"{watched.pages} in {scene.within} minutes"
    watched.live(scene.lasts)
    acts = {scene.act: cure} if scene.act and cure is not None else {}
    Operator(night, acts=acts, knows=scene.knows).follow(scene.page)
    if not acts and cure is not None:
        cure()
    for _ in range(scene.heals):
        watched.live(1)
        if set(watched.states(scene.alarm).values()) == {OK}:
            break
    late = [name for name, state in watched.states(scene.alarm).items() if state != OK]
    assert not late, f"still in alarm {scene.heals} minutes after the cure"
    watched.live(45)  # and what follows of it, when nothing hides it any more
    assert watched.paged(but=scene.follows) == expected, watched.pages

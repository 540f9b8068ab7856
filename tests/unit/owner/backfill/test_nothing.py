"""A backfill that would run nothing says why, from what is stored."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from quarterjack.domain.times import from_ms
from quarterjack.timing import Rule

from tests.support.scenes.backfills import Scene, whole
from tests.support.scenes.world import at

DAY = 86_400


def why(scene: Scene, start: float, end: float, *, current: bool = False) -> str:
    planned = scene.scheduler.backfill("s", at(start), at(end), current=current)
    assert planned.why_nothing
    return " ".join(planned.why_nothing)


@pytest.fixture
def daily() -> Scene:
    """A schedule of the NOON of a Monday, daily at 09:00 in Berlin, a week later."""
    scene = Scene()
    rule = Rule.of("0 9 * * *", timezone="Europe/Berlin", exclude=("weekends",))
    scene.scheduler.create_schedule("s", "note", rule)
    scene.wait(7 * DAY)
    return scene


def test_the_schedule_did_not_exist_then(daily: Scene) -> None:
    said = why(daily, -3 * DAY, -60)
    assert said == (
        "The schedule did not exist before 2026-05-04 14:00:00+02:00, when it was created. "
        "Its present definition has 1 fire there: pass current=True to run it."
    )
    assert daily.scheduler.backfill("s", at(-3 * DAY), at(-60), current=True).total == 1


def test_it_did_not_exist_and_has_no_fire_there_either(daily: Scene) -> None:
    assert why(daily, -2 * DAY, -DAY).endswith("Its present definition has no fire there either.")


def test_another_one_of_its_name_did(daily: Scene) -> None:
    daily.scheduler.delete_schedule("s")
    daily.wait(60)
    daily.scheduler.create_schedule("s", "note", "* * * * *")
    assert "An earlier schedule of this name was deleted at 2026-05-11 12:00:00Z." in why(daily, DAY, 2 * DAY)


@pytest.mark.parametrize("current", [False, True])
def test_its_days_are_excluded(daily: Scene, current: bool) -> None:
    said = why(daily, 4.6 * DAY, 6.5 * DAY, current=current)
    assert said.startswith("'0 9 * * *' in Europe/Berlin matches 2 times between 2026-05-09 ")
    assert "none is a fire: Sat 2026-05-09 is on a weekend, which is excluded (and 1 more like it)." in said


def test_nothing_is_due_in_between(daily: Scene) -> None:
    said = why(daily, DAY, DAY + 3_600)
    assert said == (
        "No fire of '0 9 * * *' in Europe/Berlin is due between 2026-05-05 14:00:00+02:00 and 2026-05-05 15:00:00+02:00: "
        "the fire before is due 2026-05-05 09:00:00+02:00, the one after 2026-05-06 09:00:00+02:00."
    )


def test_it_had_ended() -> None:
    scene = Scene()
    end = datetime(2026, 5, 4, 12, 30, tzinfo=UTC)
    scene.scheduler.create_schedule("s", "note", "0 * * * *")
    scene.wait(60)
    scene.scheduler.update_schedule("s", expression=Rule.of("* * * * *", end=end))
    scene.wait(DAY)
    assert "the rule ended at 2026-05-04T12:30:00+00:00" in why(scene, 3_600, 7_200)


def test_all_have_runs() -> None:
    scene = Scene()
    scene.scheduler.create_schedule("s", "note", "* * * * *")
    scene.live(300)
    said = why(scene, 60, 240)
    assert said.startswith("All 3 fires have runs (3 SUCCEEDED): redrive() repeats a run that failed, replay_run() any")


def test_of_an_interval_with_something_to_run_it_says_nothing() -> None:
    scene = Scene().past()
    planned = scene.scheduler.backfill("s", at(0), from_ms(scene.clock()))
    assert planned.total > (planned.there or 0)
    assert not planned.why_nothing


def test_a_pause_is_no_reason_as_its_fires_are_run() -> None:
    scene = Scene().idle()
    started = scene.scheduler.backfill("s", at(60), at(300), **whole())
    assert (started.total, started.why_nothing) == (4, ())

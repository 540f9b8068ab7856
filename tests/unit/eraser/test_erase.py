"""The whole of a tenant is removed, and nothing else; a process may die at any request, and two may do the same."""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import timedelta
from random import Random

import pytest
from quarterjack.auditor.log_closing import close_days
from quarterjack.auditor.log_verification import verify
from quarterjack.domain.history.archive_objects import tenant_prefix
from quarterjack.domain.names import RunRef
from quarterjack.domain.tenants.certificate import certificate_key, document_of
from quarterjack.domain.tenants.erasure import BELIEF, PLACES, QUIET, DataKind, Kept
from quarterjack.domain.tenants.profile import TenantProfile, TenantState
from quarterjack.domain.times import DAY, HOUR, MINUTE
from quarterjack.eraser.erase import Survey, advance, begin, survey
from quarterjack.errors import Unavailable
from quarterjack.testing import Crash, Detail, Hook

from tests.support.histories.crash_points import Plan
from tests.support.parts import in_parts
from tests.support.scenes.erasing import ERASED, NEIGHBOUR, ErasingScene

PARTS = 10


@pytest.fixture(scope="module")
def furnished() -> tuple[ErasingScene, object]:
    scene = ErasingScene()
    scene.furnish()
    return scene, scene.snapshot()


@pytest.fixture
def scene(furnished: tuple[ErasingScene, object]) -> Iterator[ErasingScene]:
    scene, restore = furnished
    yield scene
    restore()  # type: ignore[operator]


def test_nothing_is_left_but_what_the_certificate_names(scene: ErasingScene) -> None:
    assert len(scene.left()) > 100
    others, lines = scene.of_others(), scene.archived_lines(NEIGHBOUR)
    erasure = scene.erase()
    assert scene.left() == []
    now = scene.content()
    assert {place: now.get(place) for place in others} == others
    assert lines == scene.archived_lines(NEIGHBOUR)
    assert len(lines) > 20
    counted = {
        DataKind.RUN,
        DataKind.SCHEDULE,
        DataKind.REVISION,
        DataKind.PAYLOAD,
        DataKind.ARCHIVED,
        DataKind.INBOX,
        DataKind.PARAMETER,
    }
    assert all(erasure.removed[kind] for kind in counted | {DataKind.HISTORY, DataKind.DEAD_ENTRY, DataKind.RECORD})
    stored = gzip.decompress(scene.memory.archived[certificate_key(ERASED, erasure.id)])
    assert json.loads(stored) == document_of(erasure)
    profile = scene.services.tenants.profile(ERASED)
    assert profile is not None
    assert profile.state is TenantState.ERASED
    assert scene.services.erasures.gone(scene.clock()) == {ERASED}


def test_a_survey_counts_the_same_and_writes_nothing(scene: ErasingScene) -> None:
    before, counted = scene.content(), Survey()
    while not counted.position.is_end:
        counted = survey(ERASED, scene.context(), until=scene.clock(), so_far=counted)
    assert scene.content() == before
    assert dict(scene.erase().removed) == dict(counted.found)


def test_an_erasure_that_is_asked_for_twice_is_one(scene: ErasingScene) -> None:
    first = begin(ERASED, scene.context())
    assert begin(ERASED, scene.context()) == first
    ended = scene.erase()
    assert ended.id == first.id
    assert begin(ERASED, scene.context(), again=False) == ended


def test_what_came_since_is_found_by_asking_again(scene: ErasingScene) -> None:
    first = scene.erase()
    scene.memory.put_row(RunRef(f"{ERASED}/late", "1"), {"owner": f"{ERASED}/late", "key": "1"})
    assert scene.left()
    context = scene.context()
    erasure = begin(ERASED, context, again=True)
    while not erasure.is_certified:
        scene.clock.reach(max(erasure.next_at, scene.clock()))
        erasure = advance(erasure, context, until=scene.clock() + MINUTE)
    assert scene.left() == []
    assert erasure.id != first.id
    assert erasure.since == first.since
    assert erasure.removed[DataKind.RUN] == first.removed[DataKind.RUN] + 1
    assert certificate_key(ERASED, first.id) in scene.memory.archived, "the first certificate stays"


def test_the_last_pass_begins_when_all_that_was_under_way_has_ended(scene: ErasingScene) -> None:
    context = scene.context()
    erasure = begin(ERASED, context)
    assert advance(erasure, context, until=scene.clock() + MINUTE) == erasure, (
        "the first processes still believe the old state"
    )
    scene.clock.reach(erasure.began_at + BELIEF)
    erasure = advance(erasure, context, until=scene.clock() + MINUTE)
    assert (erasure.number, erasure.position.is_end, erasure.next_at) == (1, True, erasure.began_at + QUIET)
    scene.clock.reach(erasure.next_at)
    erasure = advance(erasure, context, until=scene.clock() + MINUTE)
    assert (erasure.number, erasure.is_certified) == (2, True)


def test_each_call_without_time_gets_further_by_one_step(scene: ErasingScene) -> None:
    context = scene.context()
    erasure, calls = begin(ERASED, context), 0
    while not erasure.is_certified:
        scene.clock.reach(max(erasure.next_at, scene.clock()))
        further = advance(erasure, context, until=scene.clock())
        assert further.version == erasure.version + 1
        erasure, calls = further, calls + 1
    assert calls >= 2 * len(PLACES)


def test_a_tenant_with_a_profile_loses_its_grants_and_its_note(scene: ErasingScene) -> None:
    profile = TenantProfile(tenant=ERASED, jobs=("note",), description=f"of {ERASED}", created_at=5)
    assert scene.services.tenants.put(profile, expected=0)
    scene.erase()
    found = scene.services.tenants.profile(ERASED)
    assert found is not None
    assert (found.jobs, found.description, found.created_at, found.version) == (None, None, 5, 3)


# The audit.


def test_the_audit_verifies_and_says_how_much_was_erased(scene: ErasingScene) -> None:
    scene.close_day()
    erasure = scene.erase()
    scene.clock.reach(scene.clock() // DAY * DAY + DAY + 2 * HOUR)
    assert close_days(scene.services, clock=scene.clock).contradicted == 0
    today = scene.clock() // DAY
    verdict = verify(ERASED, today - 3, today, scene.services, now=scene.clock())
    assert verdict.problems == []
    assert verdict.erased == erasure.removed[DataKind.AUDIT_ENTRY] > 5
    assert verdict.entries == verdict.erased + 2
    assert verdict.closes == verdict.anchored == 2


def test_the_lines_of_the_erasure_itself_stay(scene: ErasingScene) -> None:
    erasure = scene.erase()
    own = [row for row in scene.memory.audit_rows() if row.get("act") == "erase-tenant"]
    assert [json.loads(row["detail"]) for row in sorted(own, key=lambda row: row["key"])] == [
        {"erasure": erasure.id, "step": "begun"},
        {"erasure": erasure.id, "step": "ended"},
    ]
    assert erasure.kept[Kept.OWN_ENTRY] == 1, "the last one is written after the last pass"


# Objects.


def test_locked_objects_stay_and_are_named_with_the_end_of_their_lock(scene: ErasingScene) -> None:
    scene.services.archive.put(
        {f"{tenant_prefix(ERASED)}{word}": gzip.compress(b"") for word in ("one", "two", "three")}
    )
    keys = sorted(key for key in scene.memory.archived if key.startswith(tenant_prefix(ERASED)))
    until = scene.clock() + 365 * DAY
    scene.memory.archived.locked |= {keys[0]: until - DAY, keys[1]: until}
    erasure = scene.erase()
    assert sorted(key for key in scene.memory.archived if key.startswith(tenant_prefix(ERASED))) == keys[:2]
    assert erasure.removed[DataKind.ARCHIVED] == len(keys) - 2
    (locked,) = [each for each in document_of(erasure)["remains"] if "Object Lock" in each["what"]]
    assert locked["count"] == 2
    assert locked["until"].startswith("2027-05-0")
    scene.memory.archived.locked.clear()


def test_an_object_of_the_inbox_that_nobody_can_read_is_named(scene: ErasingScene) -> None:
    scene.memory.archived["archive/inbox/1-2-damaged-x.jsonl.gz"] = b"no gzip"
    erasure = scene.erase()
    assert erasure.kept[Kept.DAMAGED] == 1
    del scene.memory.archived["archive/inbox/1-2-damaged-x.jsonl.gz"]


# Running attempts.


def test_a_run_that_a_worker_has_is_asked_to_end_and_goes_with_the_second_pass(scene: ErasingScene) -> None:
    ref = next(run.ref for run in scene.memory.runs() if run.ref.tenant == ERASED)
    row = dict(scene.memory.row(ref) or {}) | {"state": "RUNNING", "lease_until": scene.clock() + HOUR}
    scene.memory.put_row(ref, row)
    erasure = scene.first_pass()
    assert erasure.kept[Kept.RUNNING] == 1
    assert (scene.memory.row(ref) or {})["cancel_requested"] is True
    scene.erase()
    assert scene.memory.row(ref) is None


# Faults.


class _Flaky(Hook):
    """Requests fail or are throttled, a few of a hundred."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        if self._random.random() < 0.05:
            raise Unavailable("injected")
        return [place for place in range(len(detail.items)) if self._random.random() < 0.05]

    def after_call(self, operation: str, detail: Detail) -> None:
        if self._random.random() < 0.05:
            raise Unavailable("injected")


def _erase_with(scene: ErasingScene, hook: Hook) -> None:
    """One process: until it is through, or dies, or gives up."""
    context = scene.context(scene.memory.connect(hook))
    erasure = begin(ERASED, context)
    while not erasure.is_certified:
        scene.clock.reach(max(erasure.next_at, scene.clock()))
        erasure = advance(erasure, context, until=scene.clock())


@in_parts(PARTS)
def test_every_crash_point_at_a_write(furnished: tuple[ErasingScene, object], part: int) -> None:
    scene, restore = furnished
    others = scene.of_others()
    plan = Plan()
    _erase_with(scene, plan)
    restore()  # type: ignore[operator]
    points = plan.apart()
    assert len(points) > 40
    for point in points[part::PARTS]:
        with pytest.raises(Crash):
            _erase_with(scene, Plan([point]))
        scene.erase()
        assert scene.left() == [], str(point)
        now = scene.content()
        assert {place: now.get(place) for place in others} == others, str(point)
        restore()  # type: ignore[operator]


def test_under_faults_it_ends_as_well(scene: ErasingScene) -> None:
    for seed in range(100):
        with suppress(Unavailable):
            _erase_with(scene, _Flaky(Random(seed)))
            break
    else:
        pytest.fail("it never ended")
    assert scene.left() == []


def test_two_that_erase_at_the_same_time_do_no_harm(scene: ErasingScene) -> None:
    one, other = scene.context(scene.memory.connect()), scene.context(scene.memory.connect())
    erasures = [begin(ERASED, one), begin(ERASED, other)]
    random = Random(7)
    while not all(erasure.is_certified for erasure in erasures):
        scene.clock.advance(timedelta(seconds=30))
        which = random.randrange(2)
        erasures[which] = advance(erasures[which], (one, other)[which], until=scene.clock())
    assert scene.left() == []
    assert erasures[0].id == erasures[1].id

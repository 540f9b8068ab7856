"""Application versions: registered by workers, made the latest by operators, assigned to runs, changed by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from quarterjack import Registry, Retry, Tenants
from quarterjack.daemon.own_version import own_version
from quarterjack.domain.tenants.app_versions import MOST_VERSIONS, AppVersion, AppVersions
from quarterjack.errors import Conflict, Forbidden, InvalidInput, NotFound, Unavailable
from quarterjack.job_packages import app_version_of
from quarterjack.owner.app_versions import VersionRegistrar, register
from quarterjack.sdk.views import Redriven
from quarterjack.settings import Settings
from quarterjack.stores.audit import audit_entry_of
from quarterjack.stores.tenants.app_versions import OWNER
from quarterjack.testing.process import bury_all

from tests.support.scenes.world import Faults, World, fails


def world_with(*names: str, share: float = 1.0) -> World:
    """The versions were registered in this order, a minute apart."""
    world = World()
    for name in names:
        world.clock.advance(timedelta(minutes=1))
        register(name, share, world.services, world.clock())
    return world


def names(world: World) -> list[str]:
    return [version.version_name for version in world.scheduler.list_application_versions()]


def test_the_version_of_the_worker_that_started_last_is_the_latest() -> None:
    world = world_with("1.0", "1.1")
    first, second = reversed(world.scheduler.list_application_versions())
    assert names(world) == ["1.1", "1.0"]
    assert (first.is_latest, second.is_latest) == (False, True)
    assert first.created_at == first.version_timestamp < second.version_timestamp
    assert first.version_id != second.version_id
    assert world.scheduler.get_latest_application_version() == second
    register("1.0", 1.0, world.services, world.clock())  # an old worker starts again
    assert names(world) == ["1.1", "1.0"]


def test_without_a_worker_there_is_no_version_and_runs_have_none() -> None:
    world = World()
    assert world.scheduler.submit("note").app_version is None
    assert names(world) == []
    with pytest.raises(NotFound, match="the first worker that starts registers its own"):
        world.scheduler.get_latest_application_version()


def test_a_version_that_is_made_the_latest_keeps_its_creation_and_gets_new_runs() -> None:
    world = world_with("1.0", "1.1")
    before = world.scheduler.list_application_versions()[1]
    world.clock.advance(timedelta(hours=1))
    after = world.scheduler.set_latest_application_version("1.0")
    assert after.is_latest
    assert (after.version_id, after.created_at) == (before.version_id, before.created_at)
    assert after.version_timestamp > before.version_timestamp
    assert world.scheduler.submit("note").app_version == "1.0"
    (row,) = [row for row in world.memory.audit_rows() if row.get("act") == "set-version"]
    entry = audit_entry_of(row)
    assert (entry.tenant, entry.detail) == ("~installation", {"version": "1.0", "share": 1.0, "was": "1.1"})


def test_all_ways_to_a_run_assign_the_latest_version_and_a_replay_takes_that_of_its_own_time() -> None:
    world = world_with("1.0")
    world.scheduler.create_schedule("s", "note", "* * * * *")
    submitted, triggered = world.scheduler.submit("note"), world.scheduler.trigger("s")
    world.tick()
    fires = world.scheduler.list_runs("s").items
    assert {run.app_version for run in (submitted, triggered, *fires)} == {"1.0"}
    world.live(180)
    ended = world.scheduler.get_run(submitted.id)
    world.scheduler.set_latest_application_version("1.0")
    register("1.1", 1.0, world.services, world.clock())
    world.clock.advance(timedelta(seconds=6))  # what a process remembers is over
    again = world.scheduler.replay_run(ended.id)
    as_it_was = world.scheduler.replay_run(ended.id, as_it_was=True)
    assert (ended.app_version, again.app_version, as_it_was.app_version) == ("1.0", "1.1", "1.0")
    since = world.clock.now() - timedelta(days=1)
    filled = world.scheduler.backfill("s", since, since + timedelta(minutes=2), current=True, dry_run=False)
    world.live(60)
    runs = [run for run in world.memory.runs() if run.backfill == filled.id]
    assert runs
    assert {run.app_version for run in runs} == {"1.1"}


def test_dead_runs_are_redriven_with_the_latest_version_or_their_own() -> None:
    world = world_with("1.0")
    dead = [world.scheduler.submit("bad").id for _ in range(3)]
    world.live(120)
    bury_all(world.services, world.clock)
    register("1.1", 1.0, world.services, world.clock())
    world.clock.advance(timedelta(seconds=6))  # what a process remembers is over

    def versions(done: Redriven) -> dict[str, str | None]:
        return {one.id: world.scheduler.get_run(str(one.redriven_as)).app_version for one in done.runs}

    assert versions(world.scheduler.redrive(dead[0])) == {dead[0]: "1.1"}
    assert versions(world.scheduler.redrive(dead[0], as_it_was=True)) == {dead[0]: "1.1"}  # it was redriven already
    assert versions(world.scheduler.redrive(dead[1], as_it_was=True)) == {dead[1]: "1.0"}
    assert versions(world.scheduler.redrive(job="bad", as_it_was=True)) == {dead[2]: "1.0"}
    with pytest.raises(InvalidInput, match="as_it_was='no': is neither True nor False"):
        world.scheduler.redrive("acme/~nobody#once", as_it_was="no")  # type: ignore[arg-type]


def test_a_retry_keeps_the_version() -> None:
    world = world_with("1.0")
    run = world.scheduler.submit("bad")
    world.live(2)
    register("1.1", 1.0, world.services, world.clock())
    world.live(120)
    ended = world.scheduler.get_run(run.id)
    assert (ended.attempt, ended.app_version) == (3, "1.0")


def test_a_share_of_the_runs_goes_to_the_latest_version_and_a_replay_agrees() -> None:
    world = world_with("1.0", "1.1")
    world.scheduler.set_latest_application_version("1.1", share=0.1)
    runs = [world.scheduler.submit("note") for _ in range(400)]
    found = Counter(run.app_version for run in runs)
    assert 15 <= found["1.1"] <= 75  # 40 are expected, with a deviation of 6
    assert found.total() == found["1.0"] + found["1.1"]
    world.live(60)
    for run in runs[:40]:
        assert world.scheduler.replay_run(run.id).app_version == run.app_version


def test_shares_add_up_over_three_versions() -> None:
    versions = AppVersions(
        versions=tuple(
            AppVersion(name=name, id=name, timestamp=at, created_at=at, share=share)
            for name, at, share in (("c", 3, 0.5), ("b", 2, 0.5), ("a", 1, 0.2))
        )
    )
    found = Counter(versions.assigned(str(number)) for number in range(4_000))
    assert found.total() == 4_000
    expected = {"c": 2_000, "b": 1_000, "a": 1_000}
    assert all(abs(found[name] - count) < 150 for name, count in expected.items())


@pytest.mark.parametrize("share", [-0.1, 1.1, "half", True, None, float("nan")])
def test_a_share_that_is_none_is_refused(share: object) -> None:
    world = world_with("1.0")
    with pytest.raises(InvalidInput, match="is no share of runs; use a number from 0 to 1"):
        world.scheduler.set_latest_application_version("1.0", share=share)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", " ", "a b", "-1", "x" * 65, "1.0\n", None, 7])
def test_a_name_that_is_none_is_refused(name: object) -> None:
    world = world_with("1.0")
    with pytest.raises(InvalidInput, match="is not a valid name of a version"):
        world.scheduler.set_latest_application_version(name)  # type: ignore[arg-type]


def test_a_version_that_no_worker_registered_cannot_be_the_latest_nor_have_runs() -> None:
    world = world_with("1.0")
    run = world.scheduler.submit("note", delay=600)
    for call in (
        lambda: world.scheduler.set_latest_application_version("2.0"),
        lambda: world.scheduler.reassign_run(run.id, "2.0"),
    ):
        with pytest.raises(NotFound, match=r"version='2.0' was never registered: .*; known: 1.0"):
            call()
    assert world.scheduler.get_run(run.id).app_version == "1.0"


def test_a_hundred_versions_are_kept_and_those_that_take_runs_among_them() -> None:
    versions = AppVersions()
    for number in range(MOST_VERSIONS + 20):
        share = 0.5 if number == MOST_VERSIONS + 19 else 1.0
        version = AppVersion(name=f"v{number}", id="x", timestamp=number, created_at=number, share=share)
        versions = versions.registered(version)
    assert len(versions.versions) == MOST_VERSIONS
    assert versions.versions[-1].name == "v20"
    pinned = versions.with_latest("v20", share=0.5, now=10_000)
    for number in range(200, 200 + MOST_VERSIONS):
        pinned = pinned.registered(
            AppVersion(name=f"v{number}", id="x", timestamp=number, created_at=number, share=0.0)
        )
    assert pinned.versions[0].name == "v20"


def test_two_workers_that_start_together_register_both() -> None:
    world = World()
    other = world.memory.connect()
    seen = world.services.tenants.app_versions.read(world.clock())
    register("1.0", 1.0, other, world.clock())
    version = AppVersion(name="1.1", id="x", timestamp=1, created_at=1)
    assert not world.services.tenants.app_versions.put(seen.registered(version))
    register("1.1", 1.0, world.services, world.clock())
    assert sorted(names(world)) == ["1.0", "1.1"]


def test_a_worker_warns_if_its_version_is_not_the_latest(caplog: pytest.LogCaptureFixture) -> None:
    world = world_with("1.0")
    VersionRegistrar(world.services, lambda: "1.0").register(world.clock())
    assert not [record for record in caplog.records if record.message == "version.not_latest"]
    world.clock.advance(timedelta(minutes=1))
    register("1.1", 1.0, world.services, world.clock())
    VersionRegistrar(world.services, lambda: "1.0").register(world.clock())
    (warned,) = (record for record in caplog.records if record.message == "version.not_latest")
    assert (vars(warned)["version"], vars(warned)["latest"]) == ("1.0", "1.1")


def test_a_registration_that_fails_is_tried_again_after_five_minutes() -> None:
    world, faults = World(), Faults()
    services = world.memory.connect(faults)
    faults.at("versions", before=fails, times=None)
    registrar = VersionRegistrar(services, lambda: "1.0")
    with pytest.raises(Unavailable):
        registrar.register(world.clock())
    faults.rules.clear()
    registrar.register(world.clock())  # too early
    assert names(world) == []
    world.clock.advance(timedelta(minutes=5))
    registrar.register(world.clock())
    assert names(world) == ["1.0"]


def test_a_record_of_versions_that_cannot_be_read_holds_up_no_run() -> None:
    world = world_with("1.0")
    stored = world.services.records.read(OWNER, "~versions")
    assert stored is not None
    assert world.services.records.write(replace(stored, version=stored.version + 1, body={"versions": [{"name": 7}]}))
    world.clock.advance(timedelta(minutes=1))
    run = world.scheduler.submit("note")
    world.live(60)
    assert world.scheduler.get_run(run.id).state == "SUCCEEDED"
    with pytest.raises(Conflict):
        register("1.1", 1.0, world.services, world.clock())  # a person has to look at it first


def test_only_an_operator_of_the_installation_makes_a_version_the_latest() -> None:
    world = world_with("1.0", "1.1")
    tenants = Tenants(services=world.services, clock=world.clock)
    tenants.grant("~installation", "iam:*", can=["admin"])
    tenants.grant("~installation", "app:root@acme", can=["admin"])
    tenants.grant("acme", "app:lead@acme", can=["admin"])
    lead = world.scheduler.acting_as("lead@acme")
    with pytest.raises(Forbidden):
        lead.set_latest_application_version("1.0")
    assert names(world) == ["1.1", "1.0"]
    world.scheduler.acting_as("root@acme").set_latest_application_version("1.0")
    assert names(world) == ["1.0", "1.1"]


def test_a_waiting_run_is_assigned_to_another_version_and_a_running_or_ended_one_is_not() -> None:
    world = world_with("1.0", "1.1")
    run = world.scheduler.submit("note", delay=600)
    assert world.scheduler.reassign_run(run.id, "1.0").app_version == "1.0"
    assert world.scheduler.reassign_run(run.id, "1.0").app_version == "1.0"  # once more
    world.live(700)
    with pytest.raises(Conflict, match="it is SUCCEEDED, so its version does not change any more; replay_run"):
        world.scheduler.reassign_run(run.id, "1.1")


def test_a_retired_version_gets_no_runs_until_it_is_made_the_latest() -> None:
    world = world_with("1.0", "1.1")
    retired = world.scheduler.retire_application_version("1.1", to="1.0")
    assert (retired.version_name, retired.moved_to, retired.is_latest) == ("1.1", "1.0", False)
    assert world.scheduler.get_latest_application_version().version_name == "1.0"
    assert world.scheduler.submit("note").app_version == "1.0"
    with pytest.raises(InvalidInput, match=r"to='1\.1': is '1\.0' itself, or was retired to it"):
        world.scheduler.retire_application_version("1.0", to="1.1")
    with pytest.raises(NotFound, match=r"version='2\.0' was never registered"):
        world.scheduler.retire_application_version("1.0", to="2.0")
    world.scheduler.set_latest_application_version("1.1")
    assert world.scheduler.submit("note").app_version == "1.1"
    world.scheduler.retire_application_version("1.0", to="1.1")


def test_the_name_is_that_of_the_setting_else_of_the_package_else_a_digest() -> None:
    jobs = Registry()
    jobs.job("here", retry=Retry(max_attempts=1))(lambda ctx, payload: None)
    assert app_version_of(jobs, "7f3a") == "7f3a"
    digest = app_version_of(jobs, None)  # the tests are a package without a version
    assert digest == app_version_of(jobs, None)
    assert len(digest) == 12
    with pytest.raises(InvalidInput, match="QUARTERJACK_APP_VERSION"):
        own_version(jobs, Settings(app_version="no name"))
    assert app_version_of(Registry(), None) == app_version_of(Registry(), None)


def test_the_files_of_a_package_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process has imported stays, whatever becomes of the files; a function asks with each record of its worker."""
    jobs = Registry()
    jobs.job("here")(lambda ctx, payload: None)
    before = app_version_of(jobs, None)
    monkeypatch.delattr(Path, "read_bytes")
    assert app_version_of(jobs, None) == before

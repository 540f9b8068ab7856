"""Worker processes of two application versions: a roll-out, a share and a roll-back, in the middle of each of which a worker is killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from quarterjack import Run, RunState
from quarterjack.local.cloud import LocalCloud
from quarterjack.local.processes import LogFollower

from bench.hurried.crew import Hurried, hurried
from bench.hurried.messages import FOLDER, messages_of
from tests.support.installation.scene import until

pytestmark = [pytest.mark.check, pytest.mark.cloud]

OLD, NEW = "1.4", "1.5"
LEASE = 4.0  # seconds
AT_ONCE = 4  # runs of a worker
RUNS = 20  # of each phase, before the act and after it


class RollOut:
    """One worker of each version, and what they say. A process is known by its pid, so by what it was started with."""

    def __init__(self, hurry: Hurried) -> None:
        self.hurry, self.scheduler = hurry, hurry.scheduler
        self.runs = dict[str, Run]()
        self.cut = set[tuple[str, int]]()  # attempts whose process was killed: run, number
        self._versions = dict[int, str]()  # by pid
        self.events = LogFollower(*(hurry.folder / f"{version}.log" for version in (OLD, NEW)))

    def start(self, version: str) -> None:
        """Start a worker and wait until its version is registered."""
        child = self.hurry.start_worker(
            version, concurrency=AT_ONCE, app_version=version, app_version_share=0, run_on="assigned"
        )
        self._versions[child.pid] = version
        self.see(lambda: version in {one.version_name for one in self.scheduler.list_application_versions()})

    def kill(self, version: str) -> None:
        """Kill it with as many runs at hand as it takes."""
        self.see(lambda: len(self.at_hand(version)) == AT_ONCE)
        self.hurry.children[version].kill()
        self.cut |= self.at_hand(version)

    def submit(self, gate: Path) -> list[Run]:
        payload = {"to": str(self.hurry.to), "gate": str(gate)}
        sent = [self.scheduler.submit("hurried.gated", payload) for _ in range(RUNS)]
        self.runs |= {run.id: run for run in sent}
        return sent

    def began(self) -> list[tuple[str, int, str]]:
        """Run, number of the attempt and version of the process, of all attempts that began."""
        return [(line["run"], line["attempt"], self._versions[line["pid"]]) for line in self.hurry.lines("begin")]

    def at_hand(self, version: str) -> set[tuple[str, int]]:
        """The attempts that its workers have begun, and neither ended nor taken into death."""
        ended = {(line["run"], line["attempt"]) for line in self.hurry.lines("end")}
        return {(run, attempt) for run, attempt, by in self.began() if by == version} - ended - self.cut

    def of(self, version: str) -> list[str]:
        return [run.id for run in self.runs.values() if run.app_version == version]

    def ended(self, run_ids: list[str]) -> None:
        """Wait until they have succeeded."""
        left = set(run_ids)

        def over() -> bool:
            left.difference_update([each for each in left if self.scheduler.get_run(each).state is RunState.SUCCEEDED])
            return not left

        self.see(over)

    def see(self, condition: object) -> None:
        assert until(condition, 120), self.hurry.logs()  # type: ignore[arg-type]


@pytest.fixture
def roll_out(local_cloud: LocalCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RollOut]:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    with hurried(local_cloud, tmp_path, lease=LEASE) as hurry:
        yield RollOut(hurry)


def test_each_run_starts_on_its_version_and_none_is_lost_whoever_is_killed(roll_out: RollOut) -> None:
    world, folder = roll_out, roll_out.hurry.folder
    for version in (OLD, NEW):
        world.start(version)
    assert world.scheduler.get_latest_application_version().version_name == NEW  # registered, with no runs
    for number, (latest, share, victim) in enumerate(((NEW, 0.5, NEW), (NEW, 1.0, OLD), (OLD, 1.0, NEW))):
        gate, survivor = folder / f"gate-{number}", NEW if victim == OLD else OLD
        before = world.submit(gate)
        world.scheduler.set_latest_application_version(latest, share=share)
        after = world.submit(gate)
        assert {run.app_version for run in before} == [{OLD}, {OLD, NEW}, {NEW}][number]
        assert {run.app_version for run in after} == [{OLD, NEW}, {NEW}, {OLD}][number]
        world.kill(victim)
        gate.touch()
        world.ended(world.of(survivor))  # nothing waits for the version that has no worker
        waiting = [run for run in world.of(victim) if world.scheduler.get_run(run).state is not RunState.SUCCEEDED]
        assert len(waiting) >= AT_ONCE
        world.start(victim)
        world.ended(world.of(victim))
    began = world.began()
    assert {(run, version) for run, _, version in began} == {(run.id, run.app_version) for run in world.runs.values()}
    again = Counter(run for run, _, _ in began)
    assert len(world.cut) == 3 * AT_ONCE
    assert {run: count - 1 for run, count in again.items() if count > 1} == Counter(run for run, _ in world.cut)
    assert [event for _, event in world.events.new() if event["event"] == "version.unserved"] == []


def test_two_versions_side_by_side_cost_at_most_two_receives_more_for_each_run(roll_out: RollOut) -> None:
    world, gate = roll_out, roll_out.hurry.folder / "gate"
    for version in (OLD, NEW):
        world.start(version)
    gate.touch()
    world.scheduler.set_latest_application_version(NEW, share=0.5)
    for _ in range(5):
        world.submit(gate)
    world.ended(list(world.runs))
    received = messages_of(world.hurry.folder)["received"]
    print(f"{received} received for {len(world.runs)} runs")  # noqa: T201 (a figure to report)
    assert len(world.runs) < received <= 3 * len(world.runs)
    assert Counter(version for _, _, version in world.began()) == Counter(
        run.app_version for run in world.runs.values()
    )

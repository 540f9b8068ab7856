"""Pipelines on the command line: list, show and draw them, run one, and retry, skip and cancel what goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from quarterjack import Retry
from quarterjack.cli import COMPLETES, completion
from quarterjack.cli.app import run

from tests.support.scenes.world import World

TASKS: dict[str, Any] = {
    "orders.extract": {"job": "ok"},
    "stock": {"job": "asks"},
    "report": {"job": "ok", "after": ["orders.extract"]},
    "mail": {"job": "breaks", "after": ["report"], "when": "report.result == 7"},
    "cleanup": {"job": "ok", "after": ["mail", "stock"], "join": "done"},
}

Said = Callable[..., str]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """An installation in memory, with pipeline ``nightly`` and schedule ``plain``."""
    world = World(at=datetime.now(UTC))
    monkeypatch.setattr("quarterjack.cli.shell.Shell.scheduler", world.scheduler)

    def breaks(ctx: Any, payload: Any) -> None:
        raise ValueError("no rows today")

    world.jobs.job("ok")(lambda ctx, payload: 7)
    world.jobs.job("asks")(lambda ctx, payload: ctx.wait_for("answer"))
    world.jobs.job("breaks", retry=Retry(max_attempts=1))(breaks)
    world.scheduler.upsert_schedule("nightly", "pipeline:nightly", "0 2 * * *", tasks=TASKS)
    world.scheduler.create_schedule("plain", "ok", "0 2 * * *")
    return world


@pytest.fixture
def said(world: World, capsys: pytest.CaptureFixture[str]) -> Said:
    def answer(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        assert run(words) == code
        out, err = capsys.readouterr()
        return str(err if code else out)

    return answer


def begun(world: World) -> str:
    """The id of a run of which ``mail`` has failed and ``stock`` waits."""
    started = world.scheduler.trigger("nightly")
    world.live(30)
    return started.id


def states(world: World, run_id: str) -> dict[str, str]:
    return {task.name: task.state for task in world.scheduler.pipeline_run(run_id).tasks}


class TestDefinitions:
    def test_the_list_has_pipelines_alone(self, said: Said) -> None:
        heading, line = said("pipelines", "list").splitlines()
        assert "job" not in heading
        assert line.startswith("nightly  ACTIVE")
        assert said("pipelines", "list", "--prefix", "x", "--expect", code=3).strip() == "error: no pipeline matches"

    def test_show_has_a_line_for_each_task(self, said: Said) -> None:
        lines = [" ".join(line.split()) for line in said("pipelines", "show", "nightly").splitlines()]
        assert "on task failure halt" in lines
        assert lines[lines.index("tasks") + 1 :] == [
            "name job after join when optional",
            "orders.extract ok all",
            "stock asks all",
            "report ok orders.extract all",
            "mail breaks report all report.result == 7",
            "cleanup ok mail, stock done",
        ]

    def test_statistics_of_tasks(self, world: World, said: Said) -> None:
        run_id = begun(world)
        lines = {line.split()[0]: line for line in said("pipelines", "stats", "nightly").splitlines()}
        assert "DEAD 1" in lines["mail"]
        assert lines["mail"].endswith(run_id)

    def test_as_json_it_is_the_schedule(self, said: Said) -> None:
        assert json.loads(said("pipelines", "show", "nightly", "--json"))["definition"]["tasks"] == TASKS

    def test_the_graph(self, said: Said) -> None:
        assert said("pipelines", "graph", "nightly").splitlines()[:3] == [
            "nightly",
            "1  orders.extract  job ok",
            "   stock           job asks",
        ]
        assert said("pipelines", "graph", "nightly", "--format", "dot").startswith('digraph "nightly" {')
        assert (
            "flowchart LR"
            in json.loads(said("pipelines", "graph", "nightly", "--format", "mermaid", "--json"))["graph"]
        )

    @pytest.mark.parametrize("verb", ["show", "graph", "run"])
    def test_a_schedule_without_tasks_is_refused(self, world: World, said: Said, verb: str) -> None:
        assert "'plain': is a schedule without tasks; `quarterjack pipelines list` shows" in said(
            "pipelines", verb, "plain", code=1
        )
        assert not world.scheduler.list_runs("plain", upcoming=False).items

    def test_a_schedule_says_that_it_has_tasks(self, said: Said) -> None:
        assert "tasks       5; `quarterjack pipelines show nightly` shows them" in said("schedules", "get", "nightly")
        described = said("schedules", "describe", "nightly")
        assert "{" not in described
        assert "cleanup         ok      mail, stock     done" in described


class TestRuns:
    def test_run_and_show(self, world: World, said: Said) -> None:
        run_id = json.loads(said("pipelines", "run", "nightly", "--key", "k", "--json"))["id"]
        world.live(30)
        shown = said("pipelines", "show", run_id)
        lines = {line.split()[0]: line for line in shown.splitlines() if line}
        assert "PARKED, 3 of 5 tasks have ended" in lines["state"]
        assert "ValueError: no rows today" in lines["mail"]
        assert lines["cleanup"].split() == ["cleanup", "WAITING", "0", "stock"]
        as_json = json.loads(said("pipelines", "show", run_id, "--json"))
        assert as_json["critical_path"] == ["orders.extract", "report", "mail"]
        assert [task["state"] for task in as_json["tasks"]] == ["SUCCEEDED", "PARKED", "SUCCEEDED", "DEAD", "WAITING"]
        assert "mail            DEAD" in said("pipelines", "graph", run_id)

    def test_cancel_is_for_runs_of_pipelines(self, world: World, said: Said) -> None:
        other = world.scheduler.submit("asks")
        refused = said("pipelines", "cancel", other.id, code=1)
        assert "is a run of job 'asks', and of no pipeline; `quarterjack runs cancel` cancels it" in refused
        world.live(30)
        assert world.scheduler.get_run(other.id).state == "PARKED"

    def test_skip_cancel_and_retry(self, world: World, said: Said) -> None:
        run_id = begun(world)
        assert "TASK='nix': pipeline 'nightly' has no such task" in said("pipelines", "skip", run_id, "nix", code=3)
        assert "`quarterjack runs cancel` ends it" in said("pipelines", "skip", run_id, "stock", code=4)
        assert "retry it once it has ended, or cancel it first" in said("pipelines", "retry", run_id, code=4)
        assert "skipped by its owner" in said("pipelines", "skip", run_id, "cleanup")
        said("pipelines", "cancel", run_id)
        world.live(30)
        assert states(world, run_id)["stock"] == "CANCELLED"
        assert "pipelines retry` with 'mail' in --skip repeats it without" in said(
            "pipelines", "skip", run_id, "mail", code=4
        )
        words = ("pipelines", "retry", run_id, "--skip", "stock", "--skip", "mail", "--key", "again", "--json")
        repeated, again = (json.loads(said(*words)) for _ in range(2))
        assert repeated["replay_of"] == run_id
        assert repeated["id"] == again["id"]
        world.live(60)
        assert world.scheduler.get_run(repeated["id"]).state == "SUCCEEDED"
        assert states(world, repeated["id"])["cleanup"] == "SKIPPED", "as in the run before"

    def test_why_explains_a_task(self, world: World, said: Said) -> None:
        run_id = begun(world)
        assert "because task 'mail' is DEAD, ValueError: no rows today" in " ".join(said("why", run_id).split())
        assert said("why", run_id, "--task", "cleanup").startswith("SKIPPED")
        assert said("why", run_id, "--task", "report").startswith("RAN")
        assert "--task=" in said("why", "nightly", "--task", "report", code=1)

    def test_a_run_of_no_pipeline_is_refused(self, world: World, said: Said) -> None:
        plain = world.scheduler.trigger("plain")
        assert "is a run of job 'ok', and of no pipeline" in said("pipelines", "show", plain.id, code=1)


class TestCompletion:
    @pytest.fixture(autouse=True)
    def _in_memory(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(completion, "_scheduler", lambda settings: world.scheduler)

    def offered(self, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
        line = ["quarterjack", *words]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(COMPLETES, "complete_bash")
            patch.setenv("COMP_WORDS", "\n".join(line))
            patch.setenv("COMP_CWORD", str(len(line) - 1))
            with pytest.raises(SystemExit):
                run([])
        return capsys.readouterr().out.split()

    def test_of_pipelines_tasks_and_forms(self, world: World, capsys: pytest.CaptureFixture[str]) -> None:
        run_id = world.scheduler.trigger("nightly").id
        capsys.readouterr()
        assert self.offered(capsys, "pipelines", "run", "") == ["nightly"]
        assert self.offered(capsys, "pipelines", "graph", "n") == ["nightly"]
        assert self.offered(capsys, "pipelines", "skip", run_id, "s") == ["stock"]
        assert self.offered(capsys, "pipelines", "retry", run_id, "--skip", "re") == ["report"]
        assert self.offered(capsys, "pipelines", "graph", "nightly", "--format", "m") == ["mermaid"]

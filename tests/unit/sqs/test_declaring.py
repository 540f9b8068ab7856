"""Declaring queues: what is refused, what it comes to in functions, and how a package is asked for its queues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from quarterjack import Registry, Settings
from quarterjack import jobs as jobs_module
from quarterjack.domain.queue import LONGEST_NAME, Queue
from quarterjack.errors import InvalidInput, JobError
from quarterjack.job_packages import load
from quarterjack.jobs import default_registry
from quarterjack.local.declared import declared_queues
from quarterjack.local.processes import ProcessRole, roles
from quarterjack.settings import from_environment

BAD: list[tuple[dict[str, Any], str]] = [
    *(({"name": name}, "name") for name in ("", "Reports", "a_b", "-a", "a-", "a b", "ä", "a" * 33, None, 7, "a\n")),
    ({"name": "default"}, "name"),
    *(({"concurrency": n}, "concurrency") for n in (0, 1, 1001, -1, True, 2.0, "2")),
    *(({"memory": n}, "memory") for n in (127, 10_241, 512.0)),
    *(({"timeout": n}, "timeout") for n in (0, 901, 1.5)),
    *(({"batch": n}, "batch") for n in (0, 11)),
    *(({"spread": n}, "spread") for n in (-1, 86_401)),
    ({"on_failure": "ops@example.com"}, "on_failure"),
    ({"on_recovery": "job:"}, "on_recovery"),
]


@pytest.mark.parametrize(("given", "field"), BAD)
def test_what_cannot_be_is_refused_with_its_remedy(given: dict[str, Any], field: str) -> None:
    registry = Registry()
    with pytest.raises(InvalidInput) as refusal:
        registry.queue(**({"name": "reports"} | given))
    assert (refusal.value.field, bool(refusal.value.remedy)) == (field, True)
    assert registry.queues() == []


def test_one_run_at_a_time_is_for_a_process() -> None:
    assert Registry().queue("serial", concurrency=1, container=True).concurrency == 1


def test_declaring_it_again_alike_is_nothing_and_otherwise_is_an_error() -> None:
    registry = Registry()
    first = registry.queue("reports", memory=1024)
    assert registry.queue("reports", memory=1024) == first
    with pytest.raises(JobError, match=r"'reports' is declared twice"):
        registry.queue("reports", memory=2048)
    registry.queue("mail")
    assert [(queue.name, queue.memory) for queue in registry.queues()] == [("mail", 512), ("reports", 1024)]


@pytest.mark.parametrize("most", [2, 3, 7, 10, 11, 20, 24, 100, 997, 1000])
@pytest.mark.parametrize("batch", [1, 4, 10])
def test_batch_and_functions_come_to_exactly_the_concurrency(most: int, batch: int) -> None:
    messages, functions = Queue(name="q", concurrency=most, batch=batch).functions
    assert functions is not None
    assert messages * functions == most
    assert (1 <= messages <= batch, 2 <= functions <= 1000) == (True, True)


def test_without_a_limit_functions_are_full_and_as_many_as_are_needed() -> None:
    assert Queue(name="q").functions == (10, None)
    assert Queue(name="q", batch=1).functions == (1, None)


def test_the_longest_name_is_the_longest() -> None:
    assert Queue(name="a" * LONGEST_NAME).name
    with pytest.raises(InvalidInput):
        Queue(name="a" * (LONGEST_NAME + 1))


# Packages.


def package(folder: Path, **modules: str) -> str:
    """A package named after its folder's last part."""
    place = folder / f"pack_{folder.name.replace('-', '_')}"
    place.mkdir()
    (place / "__init__.py").write_text("")
    for name, text in modules.items():
        (place / f"{name}.py").write_text(text)
    return place.name


JOB = "from quarterjack import job\n@job('p.run', queue='reports')\ndef run(ctx, payload): print('hello')\n"
QUEUE = "from quarterjack import Queue\nprint('noise')\nREPORTS = Queue('reports', concurrency=6, memory=2048)\n"


def test_a_package_is_asked_without_being_imported_here(tmp_path: Path) -> None:
    name = package(tmp_path, jobs=JOB, pool=QUEUE)
    before = default_registry.names()
    assert declared_queues([name], within=tmp_path) == (Queue(name="reports", concurrency=6, memory=2048),)
    assert default_registry.names() == before


def test_a_package_that_never_speaks_of_queues_is_not_imported_at_all(tmp_path: Path) -> None:
    name = package(tmp_path, jobs="import nowhere_to_be_found")
    assert declared_queues([name], within=tmp_path) == ()


@pytest.mark.parametrize("text", ["import nowhere_to_be_found  # Queue", "Queue = 1 / 0", "Queue = 1"])
def test_a_package_that_cannot_be_asked_is_an_error_that_says_why(tmp_path: Path, text: str) -> None:
    with pytest.raises(JobError, match=r"nowhere_to_be_found|ZeroDivisionError|declares no job"):
        declared_queues([package(tmp_path, jobs=text)], within=tmp_path)


def test_loading_refuses_a_job_whose_queue_nobody_declares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module.default_registry, "_jobs", {})
    monkeypatch.setattr(jobs_module.default_registry, "_queues", {})
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(JobError, match=r"'p.run': its queue 'reports' is not declared.*Declared: none"):
        load(package(tmp_path, jobs=JOB))


# Processes.


def test_the_crew_has_a_worker_for_each_declared_queue() -> None:
    crew = roles(workers=1, jobs=["acme"], queues=[Queue(name="reports"), Queue(name="mail")])
    assert crew[:2] == [
        ProcessRole("worker@reports", ("worker", "--jobs", "acme", "--queue", "reports")),
        ProcessRole("worker@mail", ("worker", "--jobs", "acme", "--queue", "mail")),
    ]
    assert [role.name for role in crew[2:]] == ["worker-1", "ticker-1", "undertaker", "historian"]


def test_the_environment_says_which_queue_a_worker_serves() -> None:
    assert from_environment({"QUARTERJACK_WORK_QUEUE": "reports"}).work_queue == "reports"
    assert Settings().work_queue is None

"""How many modules a fire goes through from the tick to the acknowledgement: each one is read to follow a run."""

from __future__ import annotations

from quarterjack.domain.tenants.access import job_problem

from tests.support.way import flow, main, way_of_a_fire


def test_a_plain_fire_goes_through_few_modules() -> None:
    seen = way_of_a_fire()
    assert len(flow(seen)) <= 26, flow(seen)
    assert len(seen) <= 69, sorted(seen)


def test_limits_turns_and_permits_add_few() -> None:
    seen = way_of_a_fire(full=True)
    assert {"worker.admission.overlap", "worker.permits", "worker.breakers"} <= seen.keys()
    assert len(flow(seen)) <= 31, flow(seen)
    assert len(seen) <= 78, sorted(seen)


def test_a_module_whose_function_runs_is_on_the_way() -> None:
    place = job_problem.__module__.removeprefix("quarterjack.")
    assert way_of_a_fire()[place] > 0


def test_it_tells_each_module() -> None:
    said = list[str]()
    main([], say=said.append)
    assert said[-1].endswith("of them in ticker, fires, worker")
    assert any(line.endswith("  worker.pipeline") for line in said)

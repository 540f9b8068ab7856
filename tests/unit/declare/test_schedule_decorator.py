"""Schedules in code: what ``@schedule`` notes, what it refuses, and which job it means."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quarterjack import Context, Registry, Retry, Rule, schedule
from quarterjack.declare import job_of
from quarterjack.domain.options import CatchUp
from quarterjack.errors import ExpressionError, InvalidInput, JobError
from quarterjack.testing import Harness

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def jobs_named(registry: Registry) -> dict[str | None, str]:
    return {found.name: job_of(found, registry) for found in registry.declared()}


# Where it stands.


def test_it_stands_above_or_below_the_job_and_several_times() -> None:
    jobs = Registry()

    @schedule("0 9 * * *", name="morning", registry=jobs)
    @jobs.job("report")
    @schedule("0 21 * * *", name="evening", registry=jobs)
    def report(ctx: Context, payload: Any) -> str:
        return "built"

    assert report(None, None) == "built"  # type: ignore[arg-type]
    assert jobs_named(jobs) == {"evening": "report", "morning": "report"}


def test_it_stands_on_static_and_class_methods_which_run() -> None:
    jobs = Registry()

    class Reports:
        folder = "reports"

        @schedule("0 13 * * *", name="static", registry=jobs)
        @jobs.job("static")
        @staticmethod
        def one(ctx: Context, payload: Any) -> str:
            return "static"

        @staticmethod
        @schedule("0 13 * * *", name="inner", registry=jobs)
        @jobs.job("inner")
        def two(ctx: Context, payload: Any) -> str:
            return "inner"

        @schedule("0 13 * * *", name="class", registry=jobs)
        @jobs.job("class")
        @classmethod
        def three(cls, ctx: Context, payload: Any) -> str:
            return f"class {cls.folder}"

    assert jobs_named(jobs) == {"static": "static", "inner": "inner", "class": "class"}
    assert Reports.one(None, None) == "static"  # type: ignore[arg-type]
    assert Reports.three(None, None) == "class reports"  # type: ignore[arg-type]
    harness = Harness(jobs, at=NOON)
    for name in jobs.names():
        harness.scheduler.submit(name, idempotency_key=name)
    assert sorted(run.result for run in harness.advance(timedelta(0))) == ["class reports", "inner", "static"]


def test_a_decorator_between_job_and_schedule_does_not_hide_the_job() -> None:
    jobs = Registry()

    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def around(*given: Any) -> Any:
            return function(*given)

        return around

    @schedule("0 9 * * *", name="outside", registry=jobs)
    @logged
    @jobs.job("report")
    def report(ctx: Context, payload: Any) -> None: ...

    assert jobs_named(jobs) == {"outside": "report"}


# What it says.


def test_it_takes_what_create_schedule_takes() -> None:
    jobs = Registry()
    rule = Rule(expression="0 9 * * *", timezone="Europe/Paris", window=900)

    @schedule(
        rule,
        payload={"b": 1, "a": 2},
        description="the report",
        tags={"team": "data"},
        start="exact",
        retry=Retry(max_attempts=5),
        timeout=60,
        catch_up="latest",
        max_running=2,
        registry=jobs,
    )
    def report(ctx: Context, payload: Any) -> None: ...

    (found,) = jobs.declared()
    assert (found.name, found.rule, found.payload, found.tags) == (None, rule, '{"a":2,"b":1}', {"team": "data"})
    assert (found.overrides.start, found.overrides.timeout) == ("exact", 60)
    assert (found.options.catch_up, found.options.max_running) == (CatchUp.LATEST, 2)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"expression": "61 * * * *"}, "expression"),
        ({"timezone": "Europe/Pariss"}, "timezone"),
        ({"name": "two words"}, "name"),
        ({"payload": {1, 2}}, "payload"),
        ({"tags": {"": "x"}}, "tags"),
        ({"retry": 3}, "retry"),
        ({"overlap": "never"}, "overlap"),
        ({"delivery": "sometimes"}, "delivery"),
    ],
)
def test_a_mistake_is_refused_at_import_and_names_function_and_field(wrong: dict[str, Any], field: str) -> None:
    jobs = Registry()

    def report(ctx: Context, payload: Any) -> None: ...

    with pytest.raises(InvalidInput) as refused:
        schedule(wrong.pop("expression", "0 9 * * *"), registry=jobs, **wrong)(report)
    assert refused.value.field.endswith(f".report: {field}")
    assert __name__.rpartition(".")[2] in refused.value.field
    assert jobs.declared() == []


def test_a_bad_expression_still_says_where_in_it() -> None:
    with pytest.raises(ExpressionError) as refused:
        schedule("0 25 * * *")(print)
    assert refused.value.position == 2


def test_an_unknown_option_is_a_mistake_in_the_call() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'catchup'"):
        schedule("0 9 * * *", catchup="all")(print)  # type: ignore[call-arg]


# Names.


def test_two_schedules_of_one_name_are_refused_and_both_places_named() -> None:
    jobs = Registry()

    def one(ctx: Context, payload: Any) -> None: ...
    def two(ctx: Context, payload: Any) -> None: ...

    schedule("0 9 * * *", name="daily", registry=jobs)(one)
    with pytest.raises(InvalidInput, match=r"\.two: name='daily': is that of another schedule, on .*\.one;"):
        schedule("0 9 * * *", name="daily", registry=jobs)(two)
    schedule("0 9 * * *", registry=jobs)(two)
    with pytest.raises(InvalidInput, match="give each a name"):
        schedule("0 10 * * *", registry=jobs)(two)


def test_a_module_that_is_imported_again_replaces_what_it_declared() -> None:
    jobs = Registry()

    def module(expression: str) -> None:
        @schedule(expression, name="daily", registry=jobs)
        def report(ctx: Context, payload: Any) -> None: ...

    module("0 9 * * *")
    module("0 10 * * *")
    assert [found.rule.expression for found in jobs.declared()] == ["0 10 * * *"]


# Jobs that are not there.


def test_a_function_that_is_no_job_or_several_is_named() -> None:
    jobs = Registry()

    @schedule("0 9 * * *", registry=jobs)
    def orphan(ctx: Context, payload: Any) -> None: ...

    (found,) = jobs.declared()
    with pytest.raises(JobError, match=r"\.orphan has a schedule, but is not registered as a job"):
        job_of(found, jobs)
    jobs.job("a")(orphan)
    assert job_of(found, jobs) == "a"
    jobs.job("b")(orphan)
    with pytest.raises(JobError, match="is registered as a, b"):
        job_of(found, jobs)


def test_the_decorator_is_there_after_the_subpackage_of_its_name_was_imported() -> None:
    import quarterjack
    import quarterjack.timing.rule

    assert quarterjack.schedule is schedule

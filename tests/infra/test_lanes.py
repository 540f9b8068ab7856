"""Lanes in the stack: three event sources that share a queue's functions, known to all who send or take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import Duration, Stack
from aws_cdk.assertions import Template
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.domain.policies import Priority
from quarterjack.domain.queue import BATCH, MOST_LOW_SHARE, Queue
from quarterjack.errors import InvalidInput
from quarterjack.state.capacity.figures import DECLARED_FUNCTIONS, DEFAULT_FUNCTIONS

from infra import Quarterjack
from infra.roles.worker import DECLARED_CONCURRENCY, DEFAULT_CONCURRENCY, WorkerSize
from tests.support.parts import in_turn
from tests.support.stacks import JOBS
from tests.support.templates import functions, sources

LANED = ("Work", "Workhigh", "Worklow")


@pytest.fixture(scope="module")
def template(with_knobs: Callable[..., Template]) -> Template:
    queues = [
        Queue(name="reports", stripes=2, concurrency=24, priorities=True),
        Queue(name="mail"),
        Queue(name="gpu", container=True, priorities=True),
    ]
    return with_knobs(priorities=True, low_age=Duration.hours(6), queues=queues)


def limits(template: Template) -> dict[str, int]:
    """The maximum concurrency of each event source, by the queue that it reads."""
    found = sources(template)
    return {queue: source["ScalingConfig"]["MaximumConcurrency"] for queue, source in found.items()}


def test_each_lane_has_its_share_of_the_functions_and_all_together_are_the_queues(template: Template) -> None:
    found = limits(template)
    assert [found[queue] for queue in LANED] == [200, 250, 50]
    assert sum(found[queue] for queue in LANED) == 500
    assert found["Workmail"] == 100
    reports = {queue: number for queue, number in found.items() if queue.startswith("Workreports")}
    assert reports == {
        "Workreports": 2,
        "Workreports1": 2,
        "Workreportshigh": 2,
        "Workreportshigh1": 2,
        "Workreportslow": 2,
        "Workreportslow1": 2,
    }
    batches = {source["BatchSize"] for queue, source in sources(template).items() if queue in reports}
    assert [number * batch for batch in batches for number in [sum(reports.values())]] == [24]


def test_a_lane_for_containers_has_no_event_source(template: Template) -> None:
    assert not any(queue.startswith("Workgpu") for queue in sources(template))
    names = {queue["Properties"]["QueueName"] for queue in template.find_resources("AWS::SQS::Queue").values()}
    assert {"quarterjack-work-gpu", "quarterjack-work-gpu_high", "quarterjack-work-gpu_low"} <= names
    assert "quarterjack-work-mail_low" not in names


def test_all_who_send_know_of_the_lanes_and_of_the_age(template: Template) -> None:
    for name, function in functions(template).items():
        variables = function["Environment"]["Variables"]
        sends = name.startswith(
            ("quarterjack-worker", "quarterjack-ticker", "quarterjack-undertaker", "quarterjack-auditor")
        )
        if sends:
            assert variables["QUARTERJACK_PRIORITIES"] == "default,gpu,reports", name
            assert variables["QUARTERJACK_LOW_AGE"] == "21600", name
    assert template.find_outputs("Priorities")["Priorities"]["Value"] == "default,gpu,reports"


def test_a_stack_without_lanes_says_nothing_of_them(with_knobs: Callable[..., Template]) -> None:
    template = with_knobs()
    assert "QUARTERJACK_PRIORITIES" not in str(template.to_json())
    assert "QUARTERJACK_LOW_AGE" not in str(template.to_json())
    assert not any("_low" in str(each) for each in template.find_resources("AWS::SQS::Queue").values())


def test_who_works_may_take_from_every_lane(template: Template) -> None:
    allowed = str(list(template.find_resources("AWS::IAM::Policy").values()))
    for queue in ("Workhigh", "Worklow", "Workreportshigh1", "Workgpulow"):
        assert f"JobsQueues{queue}" in allowed


def test_the_low_share_is_a_knob(with_knobs: Callable[..., Template]) -> None:
    found = limits(with_knobs(priorities=True, low_share=30, max_concurrency=100))
    assert [found[queue] for queue in LANED] == [31, 39, 30]


_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"priorities": True, "pollers": 5}, "priorities"),
    ({"priorities": True, "max_concurrency": 0}, "max_concurrency"),
    ({"priorities": True, "max_concurrency": 5}, "max_concurrency"),
    ({"priorities": True, "max_concurrency": 10, "stripes": 2}, "max_concurrency"),
    ({"priorities": "yes"}, "priorities"),
    ({"low_share": 0}, "low_share"),
    ({"low_share": 51}, "low_share"),
    ({"low_age": Duration.days(15)}, "low_age"),
]


@in_turn(("knobs", "field"), _REFUSED, [f"{field}-{number}" for number, (_, field) in enumerate(_REFUSED)], of=6)
def test_what_the_lanes_cannot_share_is_refused(stack: Stack, knobs: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Quarterjack(stack, "Jobs", jobs=JOBS, queues=[], **knobs)
    assert (refusal.value.field, bool(refusal.value.remedy)) == (field, True)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"concurrency": 5}, "concurrency"),
        ({"concurrency": 10, "stripes": 2}, "concurrency"),
        ({"pollers": 5}, "priorities"),
    ],
)
def test_a_queue_whose_lanes_have_nothing_to_share_is_refused(given: dict[str, int], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Queue(name="a", priorities=True, **given)  # type: ignore[arg-type]
    assert refusal.value.field == field
    assert "3 lanes" in refusal.value.problem or field == "priorities"


@pytest.mark.parametrize(
    ("concurrency", "stripes", "batch", "functions"), [(6, 1, 1, 6), (60, 1, 10, 6), (24, 2, 2, 6), (14, 1, 2, 7)]
)
def test_the_functions_of_all_lanes_run_exactly_as_many(
    concurrency: int, stripes: int, batch: int, functions: int
) -> None:
    queue = Queue(name="a", concurrency=concurrency, stripes=stripes, priorities=True)
    assert queue.functions == (batch, functions)
    assert batch * functions * stripes == concurrency


@given(
    each=st.integers(6, 1_000),
    stripes=st.integers(1, 5),
    batch=st.integers(1, BATCH),
    low_share=st.integers(1, MOST_LOW_SHARE),
)
def test_of_any_concurrency_the_lanes_functions_run_exactly_as_many_together(
    each: int, stripes: int, batch: int, low_share: int
) -> None:
    """Odd numbers, too: each stripe's lanes have event sources whose maximum concurrencies are the queue's in sum."""
    runs = min(each, 1_000 // stripes) * stripes
    queue = Queue(name="a", concurrency=runs, stripes=stripes, batch=batch, priorities=True)
    size = WorkerSize.of(queue)
    lanes = {lane: size.of_lane(lane, low_share).max_concurrency or 0 for lane in Priority}
    assert sum(lanes.values()) * size.batch * stripes == runs
    assert size.batch <= batch
    assert all(2 <= functions <= 1_000 for functions in lanes.values()), "what Lambda takes"
    total = sum(lanes.values())
    assert lanes[Priority.LOW] >= min(total * low_share // 100, total - 4), "low keeps its share"


def test_the_capacity_model_counts_with_the_functions_of_the_stack() -> None:
    assert DEFAULT_FUNCTIONS.value == DEFAULT_CONCURRENCY
    assert DECLARED_FUNCTIONS.value == DECLARED_CONCURRENCY

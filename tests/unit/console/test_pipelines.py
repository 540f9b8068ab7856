"""Pipelines in the console: the graph with its states, a line that opens, retry, skip and cancel by those who may."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise, permutations
from typing import Any

import pytest
from quarterjack import Registry, Retry, Run
from quarterjack.console.pages.pipelines.drawing import GraphBox, drawn, is_drawn
from quarterjack.console.pages.pipelines.layout import GraphLayout, placed
from quarterjack.web import Actor
from quarterjack.web.urls import run_in_url

from tests.support.console import Browser

TASKS: Mapping[str, Any] = {
    "orders": {"job": "ok", "payload": {"day": "${fire.date}"}},
    "stock": {"job": "ok"},
    "report": {"job": "fails", "after": ["orders", "stock"]},
    "mail": {"job": "ok", "after": ["report"]},
}


def of_run(run_id: str, more: str = "") -> str:
    return f"run/{run_in_url(run_id)}{more}"


class Shop:
    """A console over a pipeline whose report fails until it is mended."""

    def __init__(self, tasks: Mapping[str, Any] = TASKS) -> None:
        jobs = Registry()
        self.broken = True
        jobs.job("ok")(lambda ctx, payload: None)
        jobs.job("waits")(lambda ctx, payload: ctx.sleep(3_600))
        jobs.job("fails", retry=Retry(max_attempts=1))(self._fails)
        self.browser = Browser(jobs=jobs)
        self.browser.scheduler.upsert_schedule("nightly", "pipeline:nightly", "manual", tasks=tasks)

    def _fails(self, ctx: Any, payload: Any) -> None:
        if self.broken:
            raise RuntimeError("no paper")

    def run(self) -> Run:
        run = self.browser.scheduler.trigger("nightly")
        self.browser.harness.advance(timedelta(minutes=3))
        return run


WAITING = {
    "orders": {"job": "waits"},
    "report": {"job": "ok", "after": ["orders"]},
    "mail": {"job": "ok", "after": ["report"]},
}


# What is shown.


def test_statistics_of_tasks_lead_to_the_last_failure() -> None:
    shop = Shop()
    assert "It has not run yet." in shop.browser.get("schedule/nightly/task-stats")
    run = shop.run()
    assert "schedule/nightly/task-stats" in shop.browser.get("schedule/nightly")
    page = shop.browser.get("schedule/nightly/task-stats")
    assert of_run(run.id) in page
    assert page.count("never") == 3


def test_the_page_of_a_run_has_its_graph_and_says_how_each_task_ended() -> None:
    shop = Shop()
    run = shop.run()
    page = shop.browser.get(of_run(run.id))
    seen = shop.browser.scheduler.pipeline_run(run.id)
    assert 'aria-label="Graph of 4 tasks"' in page
    assert 'aria-label="report dead' in page
    assert 'aria-label="mail skipped' in page
    assert "RuntimeError: no paper" in page
    for task in seen.tasks:
        if task.run_id is not None:
            assert page.count(f'href="/console/t/default/{of_run(task.run_id)}"') == 2, "in the graph and in the table"
    assert re.search(r"Critical path: .*orders|stock.* → .*report", page)


def test_a_task_says_what_it_waits_for() -> None:
    shop = Shop(WAITING)
    page = shop.browser.get(of_run(shop.run().id))
    rows = re.findall(r'<th scope="row">.*?</tr>', page, re.DOTALL)
    waits = [re.findall(r'<td class="wrap">(.*?)</td>', row)[0] for row in rows]
    assert waits == ['<span class="none">nothing</span>', "orders", "report"]


def test_a_line_of_a_list_opens_the_tasks_of_its_run() -> None:
    shop = Shop()
    run = shop.run()
    page = shop.browser.get("runs?job=pipeline:nightly")
    assert page.count("<details") == 1
    address = of_run(run.id, "/tasks")
    assert f'hx-get="/console/t/default/{address}"' in page
    assert 'aria-label="report dead' in shop.browser.get(address)
    other = shop.browser.scheduler.submit("ok")
    assert "It is no run of a pipeline." in shop.browser.get(of_run(other.id, "/tasks"))


def test_the_page_of_a_schedule_has_the_graph_of_its_tasks_with_their_jobs() -> None:
    page = Shop().browser.get("schedule/nightly")
    assert 'aria-label="report fails"' in page
    assert "4 tasks as declared" in page


def test_a_revision_says_which_words_of_a_task_it_changed() -> None:
    shop = Shop()
    tasks = {**TASKS, "mail": {"job": "ok", "after": ["orders", "report"]}}
    shop.browser.scheduler.upsert_schedule("nightly", "pipeline:nightly", "manual", tasks=tasks)
    page = shop.browser.get("schedule/nightly")
    assert "tasks.mail.after" in page
    assert "tasks.report" not in page


def test_a_run_of_no_pipeline_has_no_tasks() -> None:
    shop = Shop()
    run = shop.browser.scheduler.submit("ok")
    assert "<h2>Tasks</h2>" not in shop.browser.get(of_run(run.id))


# What can be done.


def offered(page: str) -> list[str]:
    return re.findall(r'name="do" value="(\w+)"', page)


def test_what_failed_is_retried_after_a_confirmation() -> None:
    shop = Shop()
    run = shop.run()
    assert "repeat" in offered(shop.browser.get(of_run(run.id)))
    shop.broken = False
    answer = shop.browser.confirm(of_run(run.id, "/act?do=repeat"), reason="mended")
    shop.browser.harness.advance(timedelta(minutes=3))
    page = shop.browser.get(answer.headers["location"].removeprefix("/console/t/default/"))
    assert 'aria-label="mail succeeded' in page
    (entry,) = shop.browser.scheduler.audit(act="replay").items
    assert (entry.reason, entry.via) == ("mended", "console")


def test_a_retry_may_pass_a_failed_task_over() -> None:
    shop = Shop()
    run = shop.run()
    assert re.findall(r'name="skip\.(\w+)"', shop.browser.get(of_run(run.id, "/act?do=repeat"))) == ["report"]
    answer = shop.browser.confirm(of_run(run.id, "/act?do=repeat"), **{"skip.report": "on"})
    shop.browser.harness.advance(timedelta(minutes=3))
    page = shop.browser.get(answer.headers["location"].removeprefix("/console/t/default/"))
    assert 'aria-label="report skipped' in page
    assert 'aria-label="mail succeeded' in page


def test_a_task_that_has_not_begun_is_skipped() -> None:
    shop = Shop(WAITING)
    run = shop.run()
    page = shop.browser.get(of_run(run.id))
    assert offered(page) == ["cancel", "skip"]
    links = re.findall(r'href="[^"]*/(act\?do=skip&amp;task=\w+)" aria-label="Skip task (\w+)"', page)
    assert [name for _, name in links] == ["report", "mail"]
    form = shop.browser.get(of_run(run.id, "/act?do=skip&task=mail"))
    assert re.findall(r'<option value="(\w+)"( selected)?', form) == [("report", ""), ("mail", " selected")]
    shop.browser.confirm(of_run(run.id, "/act?do=skip"), task="mail", reason="on paper")
    assert shop.browser.scheduler.pipeline_run(run.id).task("mail").reason == "skipped by its owner"


def test_no_form_is_shown_when_every_task_has_begun() -> None:
    shop = Shop({"orders": {"job": "waits"}})
    assert "Every task has begun" in shop.browser.get(of_run(shop.run().id, "/act?do=skip"))


def test_cancel_of_the_run_cancels_its_tasks() -> None:
    shop = Shop(WAITING)
    run = shop.run()
    shop.browser.confirm(of_run(run.id, "/act?do=cancel"), reason="wrong day")
    shop.browser.harness.advance(timedelta(minutes=3))
    assert 'aria-label="orders cancelled' in shop.browser.get(of_run(run.id))


@pytest.mark.parametrize(("can", "expected"), [("viewer", []), ("operator", ["cancel", "skip"])])
def test_acts_are_offered_to_those_who_may(can: str, expected: Sequence[str]) -> None:
    shop = Shop(WAITING)
    run = shop.run()
    tenants = shop.browser.harness.tenants
    tenants.create("default", description="Acme")
    tenants.grant("default", "iam:*", "admin")
    tenants.grant("default", "app:eve@acme", can)
    eve = Browser(scheduler=shop.browser.scheduler, actor=Actor(name="eve@acme"))
    page = eve.get(of_run(run.id))
    assert [word for word in offered(page) if word in ("cancel", "skip", "repeat")] == expected
    assert ("do=skip&amp;task=" in page) is bool(expected)


# The drawing.


def crossings(layout: GraphLayout) -> int:
    steps = [step for points in layout.edges.values() for step in pairwise(points)]
    return sum(
        one[0][0] == other[0][0] and one[0][1] < other[0][1] and one[1][1] > other[1][1]
        for one, other in permutations(steps, 2)
    )


def test_a_task_stands_behind_all_before_it_and_no_two_on_one_place() -> None:
    after = {f"t{n}": [f"t{m}" for m in range(n) if n % (m + 2) == 0] for n in range(40)}
    layout = placed(after)
    assert len(set(layout.tasks.values())) == 40
    assert all(layout.tasks[one][0] < layout.tasks[name][0] for name, before in after.items() for one in before)


def test_edges_that_need_not_cross_do_not() -> None:
    chains: dict[str, list[str]] = {"start": []} | {
        f"{c}{n}": [f"{c}{n - 1}"] if n else ["start"] for n in range(4) for c in "abc"[:: 1 if n % 2 else -1]
    }
    assert crossings(placed({**chains, "end": ["a3", "b3", "c3"]})) == 0


def test_an_edge_over_several_columns_passes_no_task() -> None:
    layout = placed({"a": [], "b": ["a"], "c": ["b"], "d": ["a", "c"]})
    assert not set(layout.edges["a", "d"][1:-1]) & set(layout.tasks.values())


def test_a_name_in_a_drawing_is_text() -> None:
    drawing = drawn([GraphBox(name="<b>", after=(), look="good", detail='"x"', address='/run/"')])
    assert "<b>" not in drawing
    assert 'href="/run/&#34;"' in drawing


def test_a_large_graph_is_a_table_alone() -> None:
    def task(name: str, *after: str) -> GraphBox:
        return GraphBox(name=name, after=after, look="good", detail="")

    assert is_drawn([task(f"t{n}") for n in range(150)])
    assert not is_drawn([task(f"t{n}") for n in range(151)])

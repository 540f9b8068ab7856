"""The graph of a pipeline as text, DOT and Mermaid: levels in 80 columns, and no name or condition that leaves its place."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Registry, Retry
from quarterjack.domain.pipelines.reading import check_tasks
from quarterjack.domain.times import from_ms
from quarterjack.errors import InvalidInput
from quarterjack.sdk.pipelines.drawing import DrawnTask, drawing, levels, tasks_of_definition, tasks_of_run
from quarterjack.testing.harness import Harness

from tests.support.scenes.world import NOON

NIGHTLY: Mapping[str, Any] = {
    "orders.extract": {"job": "orders.extract"},
    "stock": {"job": "stock.extract"},
    "report": {"job": "report", "after": ["orders.extract", "stock"], "join": "any"},
    "mail": {"job": "mail", "after": ["report"], "when": 'report.result["rows"] > 0', "optional": True},
}


def drawn(tasks: Mapping[str, Any] = NIGHTLY) -> list[DrawnTask]:
    return tasks_of_definition(json.loads(check_tasks("tasks", tasks)))


def test_levels_follow_from_the_longest_way() -> None:
    tasks = {
        "a": {"job": "j"},
        "b": {"job": "j", "after": ["a"]},
        "c": {"job": "j", "after": ["a", "b"]},
        "d": {"job": "j"},
    }
    assert [[task.name for task in level] for level in levels(drawn(tasks))] == [["a", "d"], ["b"], ["c"]]


def test_the_text_has_levels_joins_and_conditions() -> None:
    assert drawing("nightly", drawn(), "text").splitlines() == [
        "nightly",
        "1  orders.extract",
        "   stock           job stock.extract",
        "2  report          after orders.extract, stock; join any",
        '3  mail            after report; when report.result["rows"] > 0; optional',
    ]


def test_twenty_tasks_fit_into_eighty_columns() -> None:
    names = [f"region_{number:02}.long_name_of_an_extract" for number in range(18)]
    tasks: dict[str, Any] = {name: {"job": "j"} for name in names}
    tasks["collected"] = {"job": "j", "after": names, "join": "done"}
    tasks["x" * 80] = {"job": "j", "after": ["collected"], "when": 'collected.result["' + "y" * 100 + '"] > 0'}
    text = drawing("nightly", drawn(tasks), "text")
    assert all(len(line) <= 80 or line.split()[-1] == "x" * 80 for line in text.splitlines())
    assert "and 10 more; job j; join done" in re.sub(r"\s+", " ", text)
    assert all(name in text for name in tasks)
    assert len(text.splitlines()) <= 2 * len(names) + 15


def test_dot_has_each_task_and_edge() -> None:
    dot = drawing("nightly", drawn(), "dot")
    assert dot.count("[label=") == 4
    assert re.findall(r"t\d -> t\d", dot) == ["t1 -> t3", "t2 -> t3", "t3 -> t4"]
    assert "t1 -> t3 [style=dashed];" in dot
    assert "t3 -> t4;" in dot


def test_mermaid_has_each_task_and_edge() -> None:
    text = drawing("nightly", drawn(), "mermaid")
    assert text.splitlines()[:5] == ["---", 'title: "nightly"', "---", "flowchart LR", '  t1["orders.extract"]']
    assert re.findall(r"t\d -\S+ t\d", text) == ["t1 -.-> t3", "t2 -.-> t3", "t3 --> t4"]
    assert "classDef" not in text


@pytest.mark.parametrize(
    "evil", ['"]; x -> y', "</script><b>", "a\nb", "\\", "\x1b[31m", "#quot;", "`**b**`", "\u2028"]
)
@pytest.mark.parametrize("form", ["dot", "mermaid", "text"])
def test_no_text_leaves_its_place(evil: str, form: str) -> None:
    harmless, tasks = drawn(NIGHTLY), dict(NIGHTLY)
    tasks["mail"] = {**NIGHTLY["mail"], "when": f"report.result == {evil!r}"}
    found = drawing("n", [*drawn(tasks)[:-1], DrawnTask(name="mail", job="mail", when=evil, after=("report",))], form)
    assert len(found.splitlines()) == len(drawing("n", harmless, form).splitlines())
    assert "\x1b" not in found
    last = next(line for line in found.splitlines() if "mail" in line)
    if form == "dot":
        assert re.fullmatch(r'  t4 \[label="([^"\\]|\\.)*"\];', last)
    if form == "mermaid":
        inner = last.removeprefix('  t4["').removesuffix('"]').replace("<br/>", "")
        assert re.fullmatch(r"([\w .,:()\[\]=/-]|#\d+;)*", inner)
    assert len(drawing(evil, harmless, form).splitlines()) == len(drawing("n", harmless, form).splitlines())


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(InvalidInput, match="format='svg': is not known; use text, dot, mermaid"):
        drawing("nightly", drawn(), "svg")


def test_a_run_has_the_states_of_its_tasks() -> None:
    jobs = Registry()

    @jobs.job("ok")
    def ok(ctx: Any, payload: Any) -> None:
        """Succeed."""

    @jobs.job("bad", retry=Retry(max_attempts=1))
    def bad(ctx: Any, payload: Any) -> None:
        raise ValueError("broken")

    tasks = {"a": {"job": "ok"}, "b": {"job": "bad", "after": ["a"]}, "c": {"job": "ok", "after": ["b"], "join": "any"}}
    harness = Harness(jobs, at=from_ms(NOON))
    harness.scheduler.upsert_schedule("p", "pipeline:p", "manual", tasks=tasks)
    run = harness.scheduler.trigger("p")
    harness.advance(timedelta(minutes=1))
    seen = tasks_of_run(harness.scheduler.pipeline_run(run.id))
    assert [task.state_class for task in seen] == ["succeeded", "failed", "skipped"]
    text = drawing("p", seen, "text")
    assert re.search(r"^1  a  SUCCEEDED \d+ ms +job ok$", text, re.MULTILINE)
    assert re.search(r"^3  c  SKIPPED +after b; job ok; join any$", text, re.MULTILINE)
    dot, mermaid = drawing("p", seen, "dot"), drawing("p", seen, "mermaid")
    assert re.search(r't2 \[label="b\\njob bad\\nDEAD [^"]*", fillcolor="#ffcdd2"', dot)
    assert re.search(r't2\["b<br/>job bad<br/>DEAD [^"]*"\]:::failed', mermaid)
    assert "classDef failed fill:#ffcdd2" in mermaid

"""DAG files of Airflow, read without running them: schedules, tasks, edges, and a note for each difference."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from quarterjack.apply.document import read
from quarterjack.cli.app import run
from quarterjack.errors import InvalidInput
from quarterjack.importers.airflow.dags import read_airflow
from quarterjack.importers.report import Conversion, ImportReport

HEAD = """
    from datetime import datetime, timedelta
    import pendulum
    from airflow import DAG
    from airflow.decorators import dag, task, task_group
    from airflow.models.baseoperator import chain, cross_downstream
    from airflow.operators.bash import BashOperator
    from airflow.utils.task_group import TaskGroup
"""
IN_DAG = (
    HEAD
    + """
    def op(name, **more):
        return BashOperator(task_id=name, bash_command="echo", **more)

    with DAG("d", schedule="0 2 * * *", start_date=datetime(2026, 1, 1), catchup=False) as d:
        a, b, c, e = op("a"), op("b"), op("c"), op("e")
"""
)


def imported(body: str, head: str = HEAD) -> ImportReport:
    return read_airflow(dedent(head) + dedent(body), "etl.py")


def edges(body: str) -> dict[str, list[str]]:
    """The tasks before each task, of a DAG with the tasks a, b, c and e."""
    indented = "".join(f"    {line}\n" for line in dedent(body).strip().splitlines())
    found = read_airflow(dedent(IN_DAG) + indented, "etl.py")
    return {name: list(words.get("after", ())) for name, words in found.schedules["d"]["tasks"].items()}


def dag(arguments: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The words of a DAG with these arguments, and its notes."""
    found = imported(f'with DAG("d", {arguments}):\n    BashOperator(task_id="a", bash_command="echo")')
    return dict(found.schedules["d"]), found.lines[0].notes


# Edges.


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a >> b >> [c, e]", {"a": [], "b": ["a"], "c": ["b"], "e": ["b"]}),
        ("c << [a, b]", {"a": [], "b": [], "c": ["a", "b"], "e": []}),
        ("[a, b] >> c\ne.set_upstream(c)", {"a": [], "b": [], "c": ["a", "b"], "e": ["c"]}),
        ("a.set_downstream([b, c])", {"a": [], "b": ["a"], "c": ["a"], "e": []}),
        ("chain(a, [b, c], e)", {"a": [], "b": ["a"], "c": ["a"], "e": ["b", "c"]}),
        ("chain([a, b], [c, e])", {"a": [], "b": [], "c": ["a"], "e": ["b"]}),
        ("cross_downstream([a, b], [c, e])", {"a": [], "b": [], "c": ["a", "b"], "e": ["a", "b"]}),
        ('a >> Label("yes") >> b', {"a": [], "b": ["a"], "c": [], "e": []}),
        ("for one in (b, c):\n    a >> one >> e", {"a": [], "b": ["a"], "c": ["a"], "e": ["b", "c"]}),
        ("steps = [a, b, c]\nfor i in range(2):\n    steps[i] >> steps[i + 1]", {"a": [], "b": ["a"], "c": ["b"], "e": []}),
        ('by = {"x": a}\nby["y"] = b\nby["x"] >> by["y"]', {"a": [], "b": ["a"], "c": [], "e": []}),
    ],
)  # fmt: skip
def test_edges(body: str, expected: dict[str, list[str]]) -> None:
    assert edges(body) == expected


def test_a_group_begins_with_its_roots_and_ends_with_its_leaves() -> None:
    found = edges('with TaskGroup("g") as g:\n    op("x") >> op("y")\na >> g >> b')
    assert (found["g.x"], found["g.y"], found["b"]) == (["a"], ["g.x"], ["g.y"])


def test_a_task_whose_dag_is_given_by_its_neighbour() -> None:
    found = imported(
        """
        one, two = DAG("one", schedule=None), DAG("two", schedule=None)
        a = BashOperator(task_id="a", bash_command="x", dag=two)
        a >> BashOperator(task_id="b", bash_command="x")
        BashOperator(task_id="c", bash_command="x", dag=one)
        """
    )
    assert {name: list(words["tasks"]) for name, words in found.schedules.items()} == {"one": ["c"], "two": ["a", "b"]}


# Decorated functions.


def test_results_become_references_and_so_edges() -> None:
    found = imported(
        """
        @dag(schedule="@daily", start_date=pendulum.datetime(2026, 1, 1, tz="Europe/Berlin"), catchup=False)
        def flow():
            @task
            def extract(): ...
            @task(retries=4, retry_delay=timedelta(minutes=1))
            def load(rows, *, mode="x"): ...
            @task_group
            def both(rows):
                load(rows, mode="a") >> load.override(task_id="again")(rows["left"])
            both(extract())

        flow()
        """
    )
    words = found.schedules["flow"]
    assert words["timezone"] == "Europe/Berlin"
    assert words["tasks"]["both.load"] == {
        "job": "flow.load",
        "payload": {"rows": "${extract.result}", "mode": "a"},
        "after": ["extract"],
        "retry": {"max_attempts": 5, "base": 60.0, "backoff": "fixed", "jitter": 0.0},
    }
    assert words["tasks"]["both.again"]["payload"] == {"rows": '${extract.result["left"]}'}
    assert words["tasks"]["both.again"]["after"] == ["extract", "both.load"]


def test_expand_becomes_a_map() -> None:
    found = imported(
        """
        @dag("m", schedule=None)
        def m():
            @task
            def files(): ...
            @task
            def load(file): ...
            @task
            def report(rows): ...
            report(load.expand(file=files()))
        m()
        """
    )
    tasks = found.schedules["m"]["tasks"]
    assert tasks["load"] == {"job": "m.load", "map": {"over": "${files.result}", "at_a_time": 100}, "after": ["files"]}
    assert tasks["report"]["payload"] == {"rows": "${load.result}"}


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("one_success", {"join": "any"}),
        ("none_failed", {"join": "none_failed"}),
        ("all_done", {"join": "done"}),
        ("one_failed", {"join": "done", "when": 'a.state in ["DEAD", "LOST", "EXPIRED", "CANCELLED"]'}),
    ],
)
def test_trigger_rules_become_joins(rule: str, words: dict[str, str]) -> None:
    found = read_airflow(dedent(IN_DAG) + f'    a >> op("last", trigger_rule="{rule}")\n', "etl.py")
    last = found.schedules["d"]["tasks"]["last"]
    assert {word: last[word] for word in ("join", "when") if word in last} == words


@pytest.mark.parametrize("rule", ["one_failed", "all_failed", "all_skipped"])
def test_a_rule_about_failures_says_that_they_are_not_passed_on(rule: str) -> None:
    found = read_airflow(dedent(IN_DAG) + f'    a >> b >> op("last", trigger_rule="{rule}")\n', "etl.py")
    (line,) = [line for line in found.lines if line.text.startswith("last = ")]
    assert "a task before it that does not start since one above it has failed is SKIPPED" in line.notes[0]


def test_a_branch_is_a_condition_of_the_tasks_after_it_and_is_marked() -> None:
    found = read_airflow(dedent(IN_DAG) + '    BranchPythonOperator(task_id="pick") >> [a, b]\n', "etl.py")
    assert found.schedules["d"]["tasks"]["a"]["when"] == 'pick.result == "a"'
    (line,) = [line for line in found.lines if line.text.startswith("a = ")]
    assert line.fit is Conversion.DIFFERS
    assert "the job of pick returns the name of the one task" in line.notes[0]


# Schedules.


@pytest.mark.parametrize(
    ("given", "expression"),
    [
        ('schedule="@hourly"', "@hourly"),
        ('schedule_interval="*/5 * * * *"', "*/5 * * * *"),
        ("schedule=timedelta(hours=6)", "rate(21600 seconds)"),
        ("schedule=timedelta(days=1)", "rate(1 day)"),
        ('timetable=CronTriggerTimetable("0 1 * * 3", timezone="Europe/Rome")', "0 1 * * 3"),
        ("schedule=None", "manual"),
        ('schedule=[Dataset("s3://x")]', "manual"),
    ],
)
def test_when_it_runs(given: str, expression: str) -> None:
    words, _ = dag(f"{given}, catchup=False")
    assert words["expression"] == expression


def test_what_the_runs_of_a_dag_have() -> None:
    words, _ = dag(
        'schedule="0 2 * * *", start_date=datetime(2026, 1, 1), end_date=datetime(2027, 1, 1), catchup=True, max_active_runs=1, '
        'tags=["team"], params={"day": 1}, dagrun_timeout=timedelta(hours=2), description="nightly", '
        'default_args={"retries": 3, "retry_delay": timedelta(seconds=30), "execution_timeout": timedelta(minutes=9)}'
    )
    assert words["automatic_backfill"] is True
    assert (words["max_running"], words["deadline"], words["payload"]) == (1, 7_200.0, {"day": 1})
    assert (words["tags"], words["description"], words["paused"]) == ({"team": "airflow"}, "nightly", True)
    assert words["rule"] == {"start": "2026-01-01T00:00:00Z", "end": "2027-01-01T00:00:00Z"}
    assert words["tasks"]["a"]["retry"]["max_attempts"] == 4
    assert words["tasks"]["a"]["timeout"] == 540.0


def test_a_note_says_what_differs() -> None:
    _, notes = dag('schedule="@daily", max_active_tasks=3')
    assert any(note.startswith("catchup is not given: Airflow 2 has True") for note in notes)
    assert "max_active_tasks is left out: caps of jobs and tenants bound what runs at a time" in notes


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ('schedule=Variable.get("when")', "only known when the file runs"),
        ("schedule=EventsTimetable([])", "EventsTimetable has no counterpart"),
        ('schedule="@continuous"', "no counterpart"),
        ('schedule="0 25 * * *"', "25"),
    ],
)
def test_a_dag_that_is_not_converted_says_why(given: str, why: str) -> None:
    found = imported(f'with DAG("d", {given}):\n    BashOperator(task_id="a", bash_command="echo")')
    assert (found.schedules, found.not_taken) == ({}, 1)
    assert why in found.lines[0].notes[0]


# What a task gets from its DAG, and passes on.


def test_what_default_args_say_is_of_all_tasks() -> None:
    words, notes = dag(
        'schedule=None, default_args={"depends_on_past": True, "pool": "db", "trigger_rule": "all_done"}'
    )
    assert words["tasks"]["a"]["join"] == "done"
    assert "depends_on_past, pool of default_args are left out" in notes


def test_what_an_operator_passes_on_is_the_payload() -> None:
    found = imported(
        """
        with DAG("d", schedule=None):
            a = PythonOperator(task_id="a", op_kwargs={"table": "t", "home": "${HOME}", "day": "{{ ds }}"})
            TriggerDagRunOperator(task_id="b", trigger_dag_id="other", conf={"n": 1, "rows": a.output})
            PythonOperator(task_id="c", op_args=[1], op_kwargs=given())
        """
    )
    tasks = found.schedules["d"]["tasks"]
    assert tasks["a"]["payload"] == {"table": "t", "home": "$${HOME}", "day": "{{ ds }}"}
    assert tasks["b"]["payload"] == {"n": 1, "rows": "${a.result}"}
    assert "payload" not in tasks["c"]
    told = {line.text.split(" ")[0]: line.notes for line in found.lines}
    assert "the template of day stays text" in told["a"][0]
    assert told["c"] == (
        "op_args is left out: a payload names its values",
        "op_kwargs is only known when the file runs: write it into payload",
    )


# What the text does not say.


@pytest.mark.parametrize("make", ["make(customer)", 'DAG("d", schedule=None)'])
def test_dags_of_a_loop_that_only_running_the_file_gives_are_not_converted(make: str) -> None:
    found = imported(
        f"""
        def make(customer):
            with DAG(customer, schedule="@hourly"):
                BashOperator(task_id="a", bash_command="echo")

        make("known")
        for customer in customers():
            {make}
        """
    )
    assert (found.not_taken, [*found.schedules]) == (1, ["known"])
    assert found.lines[-1].notes == ("a loop over a value that only running the file gives: its DAGs are not read",)


def test_assets_are_told_as_they_are_written() -> None:
    _, notes = dag('schedule=[Asset("s3://x"), Asset("s3://y")]')
    assert notes[0].startswith("schedule=[Asset('s3://x'), Asset('s3://y')]: assets start nothing here")


def test_what_only_running_the_file_gives_is_told_with_its_line() -> None:
    found = read_airflow(
        dedent(IN_DAG)
        + "    for table in tables():\n        op(table)\n    if late():\n        op('x')\n    else:\n        op('y')\n",
        "etl.py",
    )
    told = {line.text: line.notes for line in found.lines if line.fit is Conversion.LEFT}
    assert "a loop over a value that only running the file gives" in told["for table in tables():"][0]
    assert "both branches of an if are read" in told["if late():"][0]


def test_nothing_of_a_file_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    imported(f'open({str(mark)!r}, "w").write("x")\nwith DAG("d", schedule=None):\n    BashOperator(task_id="a")')
    assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def f(:", "is not Python"),
        ("x = 1", "has no DAG in it"),
        ("f = lambda: 0\n" + "[" * 300 + "]" * 300, "is not Python"),
        ("def f():\n    f()\nf()\nfor a in range(200):\n  for b in range(200):\n    for c in range(9): a", "too much to be read"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        read_airflow(text, "etl.py")


def test_a_cycle_is_told() -> None:
    found = read_airflow(dedent(IN_DAG) + "    a >> b >> a\n", "etl.py")
    assert "is a cycle" in found.lines[0].notes[0]


def test_names_that_tasks_may_not_have_are_changed_and_told() -> None:
    found = imported(
        'with DAG("d", schedule=None):\n    for x in ("a-b", "a_b", "1st", "fire"):\n        BashOperator(task_id=x)'
    )
    assert list(found.schedules["d"]["tasks"]) == ["a_b", "a_b__1", "_1st", "task_fire"]
    assert "'a-b' is not a valid name of a task" in found.lines[1].notes[0]


# The command.


def test_the_command_writes_a_file_that_apply_reads_and_jobs_to_fill_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("etl.py").write_text(dedent(IN_DAG) + "    a >> EmptyOperator(task_id='end')\n")
    run(["import", "airflow", "etl.py"])
    assert "exact       -" in capsys.readouterr().out
    (document,) = read(Path("schedules.yaml").read_text(), "schedules.yaml")
    assert document.declarations[0].job == "pipeline:d"
    jobs = Path("jobs.py").read_text()
    compile(jobs, "jobs.py", "exec")
    assert 'raise Permanent("the job d.a is not written yet")' in jobs
    assert "It does nothing: it joins the tasks before it." in jobs

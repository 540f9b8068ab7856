"""Errors of commands name what was typed: options and commands, no parameter or method of the SDK."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import quarterjack
from quarterjack import Retry, Scheduler, Tenants
from quarterjack.cli.app import run, whole
from quarterjack.cli.schedules.options import RETRY, RULE
from quarterjack.cli.wording import COMMANDS, PARAMETERS, PHRASES, Wording
from quarterjack.domain.options import Options, OptionWords
from quarterjack.errors import AlreadyExists, Conflict, InvalidInput, NotFound, QuarterjackError
from quarterjack.sdk.requests import ScheduleWords
from quarterjack.timing import STORED, Rule

from tests.support.scenes.world import World


def leaf(words: str) -> Any:
    found: Any = whole()
    for word in words.split():
        found = found.commands[word]
    return found


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> World:
    """Commands work on an installation in memory."""
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * *")
    monkeypatch.setattr("quarterjack.cli.shell.Shell.scheduler", world.scheduler)
    monkeypatch.setattr("quarterjack.cli.shell.Shell.tenants", Tenants(services=world.services, clock=world.clock))
    return world


REFUSED = [
    ("tenants set", "acme --add-job a|b", "--add-job"),
    ("tenants set", "acme --remove-job a|b", "--remove-job"),
    ("keys create", "a_b --can submit", "NAME"),
    ("keys create", "crm --can submit --expires 2020-01-01T00:00:00Z", "--expires"),
    ("schedules create", "s note x --timezone Mars", "--timezone"),
    ("schedules create", "n note * --timeout 0", "--timeout"),
    ("schedules create", "n note @daily --exclude weekends --exclude nosuch", "--exclude"),
    ("schedules create", "n note @daily --exclude 2026-02-30", "--exclude"),
    ("schedules create", "n note @daily --also nosuch", "--also"),
    ("schedules update", "s --exclude nosuch", "--exclude"),
    ("jobs publish", "nosuch", "PACKAGES"),
    ("schedules create", "n note * --retry-base -1", "--retry-base"),
    ("schedules create", "n note * --retry-within -1", "--retry-within"),
    ("schedules create", "n note * --window -1", "--window"),
    ("schedules create", "n note * --from 2026-01-02T00:00:00Z --until 2026-01-01T00:00:00Z", "--until"),
    ("schedules create", "n note * --on-failure job:", "--on-failure"),
    ("schedules create", "n note * --tag x", "--tag"),
    ("schedules create", "n note * --client-token a,b", "--client-token"),
    ("schedules create", "a,b note *", "NAME"),
    ("schedules update", "s --start soon", "--start"),
    ("schedules update", "s --expected-revision 0 --start exact", "--expected-revision"),
    ("schedules update", "s --unset job", "--unset"),
    ("schedules update", "s", "NAME"),
    ("schedules list", "--prefix a,b", "--prefix"),
    ("schedules list", "--limit 0", "--limit"),
    ("schedules list", "--cursor x", "--cursor"),
    ("schedules preview", "s --count 0", "--count"),
    ("schedules pause", "s --until 2001-01-01T00:00:00Z", "--until"),
    ("schedules trigger", "s --key a,b", "--key"),
    ("schedules trigger", "s --payload x", "--payload"),
    ("schedules bulk", "stop --prefix a", "ACTION"),
    ("schedules bulk", "pause", "--prefix"),
    ("schedules bulk", "retag --prefix a", "--set"),
    ("schedules bulk", "retag --prefix a --set x", "--set"),
    ("schedules bulk", "pause --prefix a --rate 0", "--rate"),
    ("schedules backfill", "s 2026-05-04T11:00:00Z 2026-05-04T10:00:00Z", "END"),
    ("schedules backfill", "s 2026-05-04T11:00:00 2026-05-04T10:00:00Z", "START"),
    ("schedules backfill", "s 2026-05-04T10:00:00Z 2026-05-04T11:00:00Z --concurrency 0", "--concurrency"),
    ("backfills get", "s a,b", "BACKFILL"),
    ("backfills runs", "a,b x", "NAME"),
    ("runs list", "s --cursor x", "--cursor"),
    ("runs list", "--oldest-first", "--oldest-first"),
    ("runs tail", "a,b", "TARGET"),
    ("runs tail", "x#y", "TARGET"),
    ("runs cancel", "", "RUN"),
    ("why", "x#y", "NAME|RUN"),
    ("why", "s", "NAME|RUN"),
    ("schedules list", "--tag =x", "--tag"),
    ("schedules bulk", "trigger --prefix a --reason x", "--reason"),
    ("import crontab", "no-such-file", "FILE"),
    ("runs list", "a,b", "NAME"),
    ("runs show", "x", "RUN"),
    ("runs wait", "acme/~a#once --timeout 0", "--timeout"),
    ("runs cancel", "--schedule a,b", "--schedule"),
    ("runs cancel", "--schedule s --after 2026-01-01T00:00:00", "--after"),
    ("runs replay", "x", "RUN"),
    ("runs replay", "x --key a,b", "--key"),
    ("dead list", "--job a,b", "--job"),
    ("dead list", "--schedule a,b", "--schedule"),
    ("dead list", "--since 2100-01-01T00:00:00Z", "--since"),
    ("audit list", "--since 0001-01-01T00:00:00+14:00", "--since"),
    ("audit list", "--until 9999-12-31T23:59:59-14:00", "--until"),
    ("audit verify", "--until 9999-12-31T23:59:59-14:00", "--until"),
    ("audit list", "--actor ''", "--actor"),
    ("why", "s --at 0001-01-01T00:00:00+14:00", "--at"),
    ("why", "s --at 9999-12-31T23:59:59-14:00", "--at"),
    ("dead redrive", "--job j --rate 0", "--rate"),
    ("dead redrive", "--job j --limit 0", "--limit"),
    ("dead redrive", "", "--since"),
    ("dead purge", "", "--until"),
    ("submit", "note --at 1901-01-01T00:00:00Z", "--at"),
    ("submit", "note --delay -1", "--delay"),
    ("submit", "note --key a,b", "--key"),
    ("submit", "note --max-attempts 0", "--max-attempts"),
    ("submit", "a,b", "JOB"),
    ("preview", "* --count 0", "--count"),
    ("preview", "* --around-dst --count 0", "--count"),
    ("pipelines show", "s", "NAME|RUN"),
    ("pipelines show", "x#y", "NAME|RUN"),
    ("pipelines graph", "s --format svg", "--format"),
    ("pipelines run", "s", "NAME"),
    ("pipelines retry", "x", "RUN"),
    ("pipelines retry", "x#once --key a,b", "--key"),
    ("pipelines list", "--prefix a,b", "--prefix"),
    ("freeze", "2001-01-01T00:00:00Z --yes", "UNTIL"),
]


@pytest.mark.parametrize(("command", "words", "field"), REFUSED)
def test_a_refusal_names_what_was_typed(
    memory: World, command: str, words: str, field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    every = "* * * * *"
    typed = {"*": every, "''": ""}
    assert run([*command.split(), *(typed.get(word, word) for word in words.split())]) == 1
    said = capsys.readouterr().err
    assert re.match(rf"error: {re.escape(field)}(=|: )", said), said
    assert not re.search(r"\b(datetime|timedelta|None|True|False)\b|\(['\"]", said), "as one types it"
    params = leaf(command).params
    assert field in {one.opts[0] if field.startswith("--") else one.metavar for one in params}, "and it exists"


@pytest.mark.parametrize("variable", [False, True])
def test_a_tenant_is_named_as_it_was_given(
    variable: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QUARTERJACK_TENANT", "a b")
    run(["schedules", "list"] if variable else ["--tenant", "a b", "schedules", "list"])
    assert capsys.readouterr().err.startswith(f"error: {'QUARTERJACK_TENANT' if variable else '--tenant'}='a b': ")


@pytest.mark.parametrize(
    ("command", "problem", "said"),
    [
        (
            "runs cancel",
            NotFound("name='x': none; list_schedules() shows them"),
            "--schedule='x': none; `quarterjack schedules list` shows them",
        ),
        ("schedules get", NotFound("name='x': none"), "NAME='x': none"),
        (
            "submit",
            AlreadyExists("idempotency_key: run r exists; use another key"),
            "--key: run r exists; use another key",
        ),
        (
            "dead redrive",
            Conflict("run_id='r': LOST; pass allow_repeat=True to run it"),
            "RUN='r': LOST; pass --allow-repeat to run it",
        ),
        ("runs replay", NotFound("run_id='r': gone; pass payload="), "RUN='r': gone; pass --payload"),
        (
            "schedules pause",
            AlreadyExists("client_token='t': used for pause_schedule('a'); x"),
            "--client-token='t': used for `quarterjack schedules pause 'a'`; x",
        ),
        (
            "schedules create",
            InvalidInput("max_running", 2, "not with overlap='skip'", "x"),
            "--max-running=2: not with --overlap='skip'; x",
        ),
        ("schedules create", InvalidInput("start", datetime(2026, 1, 1, tzinfo=UTC), "x", "y"), "--from=2026-01-01"),
        ("schedules create", InvalidInput("payload: day", 7, "x", "y"), "--payload: day=7: x; y"),
        ("apply", InvalidInput("jobs.yaml:3: s.job", 7, "x", "y"), "jobs.yaml:3: s.job=7: x; y"),
        (
            "apply",
            InvalidInput("job", "j", "x", "import it, or pass strict=False to Scheduler"),
            "job='j': x; import it, or leave --strict out",
        ),
    ],
)
def test_texts_are_in_the_words_of_the_command(command: str, problem: QuarterjackError, said: str) -> None:
    found = Wording(leaf(command).params).error(problem)
    assert type(found) is type(problem)
    assert str(found).startswith(said)


def test_every_method_that_an_error_names_has_a_command() -> None:
    methods = {name for name in dir(Scheduler) if not name.startswith("_")}
    named = set[str]()
    for path in Path(quarterjack.__file__).parent.rglob("*.py"):
        if {"local", "testing", "cli"} & set(path.parts[-3:-1]):
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            if re.match(r"\s*f?\"|.*(Conflict|NotFound|InvalidInput|remedy|problem)", line):
                named |= set(re.findall(r"(?<![.\w])(\w+)\(\)[ ;\"]", line)) & methods
    assert {"list_schedules", "replay_run"} <= named <= set(COMMANDS)


def test_the_tables_name_what_there_is() -> None:
    for method, command in COMMANDS.items():
        assert hasattr(Scheduler, method)
        assert leaf(command).params
    every = {str(one.name) for words in {words for words, _, _ in REFUSED} for one in leaf(words).params}
    assert {name for names in PARAMETERS.values() for name in names} <= every


# Every command, and everything that an error may name.

# Parameters of methods that no option stands for: how a command follows and stops a call, and what it passes by itself.
BY_ITSELF = {
    *(
        "on_progress",
        "on_change",
        "stop",
        "newest_first",
        "next_fires",
        "plan",
        "declarations",
        "managed_by",
        "between",
    ),
}
# Calls that only look something up, with values that were checked or are the command's own.
LOOKUPS = {
    ("schedules describe", "stats"),
    ("schedules backfill", "get_backfill"),
    ("runs tail", "list_runs"),
    ("why", "list_runs"),
}


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield " ".join(path), command
    for name, child in (children or {}).items():
        yield from leaves(child, (*path, name))


def methods_of(command: Any) -> set[str]:
    """The methods of Scheduler that a command calls, itself or by functions of its module."""
    function = inspect.unwrap(command.callback)
    module = ast.parse(inspect.getsource(inspect.getmodule(function)))  # type: ignore[arg-type]
    functions = {node.name: node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}
    called, seen, names = set[str](), set[str](), [function.__name__]
    while names:
        name = names.pop()
        if name in seen or name not in functions:
            continue
        seen.add(name)
        for node in ast.walk(functions[name]):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("scheduler"):
                called.add(node.attr)
            elif isinstance(node, ast.Name):
                names.append(node.id)
    return called & {name for name in dir(Scheduler) if not name.startswith("_")}


def test_of_every_command_each_parameter_of_its_calls_has_an_option_or_an_argument() -> None:
    missing, found = [], 0
    for path, command in leaves(whole()):
        words = Wording(command.params)
        for method in methods_of(command) - {called for where, called in LOOKUPS if where == path}:
            for name in set(inspect.signature(getattr(Scheduler, method)).parameters) - BY_ITSELF - {"self", "words"}:
                found += 1
                said = str(words.error(InvalidInput(name, "x", "is wrong", "correct it"))).partition("=")[0]
                if not (said.startswith("--") or said.isupper()):
                    missing.append((path, method, name))
    assert found > 150
    of_its_own = {  # the command goes through all pages
        ("dead redrive", "redrive", "cursor"),
        ("runs logs", "run_logs", "cursor"),
        ("dead purge", "purge", "limit"),
        ("audit verify", "verify_audit", "limit"),
        ("schedules list", "list_schedules", "pipelines"),  # these are listed by `pipelines list`
    }
    assert set(missing) <= of_its_own


def test_every_word_of_a_definition_has_its_option() -> None:
    words = Wording(leaf("schedules create").params)
    sources = (Retry, Rule, ScheduleWords)
    names = {name for kind in sources for name in inspect.get_annotations(kind)}
    names |= set(inspect.get_annotations(Options)) | set(inspect.get_annotations(OptionWords))
    mapped = {name for name in names if str(words.error(InvalidInput(name, "x", "y", "z"))).startswith("--")}
    unmapped = {name for name in names - mapped if not name.startswith("_")}
    # The expression is an argument, the retry stands for its options, and the others are for programs and files.
    of_programs = {"retry_on", "never_on", "always_on", "by_status", "plan", "tasks", "on_task_failure", *STORED}
    assert unmapped == {"expression", "retry", "flow", *of_programs}
    for table in (RETRY, RULE):
        for option, name in table.items():
            typed = {str(one.name): one.opts[0] for one in leaf("schedules create").params}[option]
            value = datetime(2026, 1, 1, tzinfo=UTC) if name == "start" else "x"
            assert str(words.error(InvalidInput(name, value, "y", "z"))).startswith(f"{typed}=")


def test_every_field_that_a_command_itself_refuses_is_one_of_its_words() -> None:
    """Literal fields in the modules of the command line."""
    commands = [whole(), *(command for _, command in leaves(whole()))]
    typed = {word for command in commands for one in command.params for word in (str(one.name), *one.opts)}
    root = Path(quarterjack.__file__).parent / "cli"
    fields = {
        node.args[0].value
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "InvalidInput"
        if isinstance(node.args[0], ast.Constant)
    }
    assert "--delay" in fields
    assert fields - typed <= {"argument"}


def test_a_parameter_of_a_worker_is_its_option() -> None:
    found = Wording(leaf("worker").params).error(InvalidInput("max_memory", 1, "is less than the worker", "give more"))
    assert str(found) == "--max-memory=1: is less than the worker; give more"


def test_every_phrase_that_is_said_otherwise_is_still_said() -> None:
    sources = Path(quarterjack.__file__).parent.rglob("*.py")
    text = "".join(path.read_text(encoding="utf-8") for path in sources if path.name != "wording.py")
    assert {phrase for phrase in PHRASES if phrase not in text} == set()

"""Generate the parts of the documentation that follow from the code: public API, settings, errors, states, transitions, commands.

    python docs/generate.py            write
    python docs/generate.py --check    say what is stale, and exit with 1

On any page under docs/, the text between ``<!-- begin: NAME -->`` and ``<!-- end: NAME -->`` is one of the BLOCKS below.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import quarterjack
from quarterjack import errors, settings, testing
from quarterjack.apply import schema
from quarterjack.cli.app import whole
from quarterjack.cli.commands import COMMANDS
from quarterjack.cli.exits import ExitCode
from quarterjack.domain import audit, options, policies, run, schedule
from quarterjack.domain.history import entry, transition_line
from quarterjack.domain.run import TERMINAL, RunState
from quarterjack.domain.tenants import caller
from quarterjack.domain.tenants.access import ROLES, Role, Verb
from quarterjack.ready_jobs import http, notifiers
from quarterjack.sdk.call_verbs import CALLS, OF_TENANTS
from quarterjack.sdk.schedules import bulk
from quarterjack.signals import catalogue as signals
from quarterjack.signals.measurement import Emitter, Unit
from quarterjack.state import backfill, before_start, ending, lease
from quarterjack.state.transition import Transition
from quarterjack.web import create_app
from quarterjack.web.app import openapi_document
from quarterjack.web.problems import INVALID_CREDENTIALS, KINDS, REFUSALS
from quarterjack.web.shapes import remarks

sys.path.insert(0, str(Path(__file__).parents[1]))  # the stack is a folder of the checkout
from infra.alarms.plan import HOURLY
from infra.alarms.spec import AlarmSpec
from infra.alarms.specs import SPECS
from infra.figures import Source

DOCS = Path(__file__).parent
_PACKAGE = DOCS.parent / "shared" / "quarterjack"
_MARKED = re.compile(r"(<!-- begin: ([a-z-]+) -->\n).*?(<!-- end: \2 -->)", re.DOTALL)
# What most calls raise is said once, in front.
_USUAL_ERRORS = re.compile(r"\s*Raises (?:(?:InvalidInput|NotFound|Forbidden|Unavailable)(?:, | and )?)+\.$")
_WIDE = 100  # characters of a signature on one line
# Classes that users make: their fields have defaults. Those of results are of no interest.
_MADE = (quarterjack.Retry, quarterjack.Redact, quarterjack.Rule, quarterjack.Queue, http.Request, http.Secret)
_HEADED = ("Scheduler", "Tenants", "Context")  # classes whose methods have headings
# Classes whose fields and members another page has.
_ELSEWHERE: dict[type, str] = {
    settings.Settings: "Its fields: [settings](settings.md).",
    RunState: "Its members: [states](../explanation/runs.md#states).",
}
_OF_REGISTRY = {"job": "job", "queue": "Queue"}  # its methods, and the functions that do the same for the default one
_USUAL = 0.6  # part of the commands that have an option, so that none names it
_SHARED = 3  # commands that have an option, so that it is described in front of them
_OTHER_CHANGES = ("pause", "delete", "trigger")  # what creating and pausing share is no part of a definition
_PHASES = (before_start, lease, ending)  # modules of transitions

# Order of the public names on the page; other names follow.
_ORDER = (
    *("job", "schedule", "Context", "Retry", "Redact", "Delivery", "Start", "Registry", "load"),
    *(
        "Scheduler",
        "AsyncScheduler",
        "Schedule",
        "ScheduleState",
        "Run",
        "RunState",
        "Page",
        "Rule",
        "next_fires",
        "Settings",
    ),
    *("Answer", "Verdict", "Cause", "Sentence"),
)


# Where the words of options are defined, by the names of their types.
_WORDS: dict[str, Any] = {
    "DeliveryWord": policies,
    "StartWord": policies,
    "IsolationWord": policies,
    "BackoffWord": policies,
    "CatchUpWord": options,
    "OverlapWord": options,
    "BackfillOrderWord": backfill,
    "BulkAction": bulk,
    "ScheduleStateWord": schedule,
    "RunStateWord": run,
    "RunKindWord": entry,
    "TransitionKindWord": transition_line,
    "ViaWord": caller,
    "AuditActWord": audit,
}

# Blocks.


def api() -> Iterator[str]:
    """The public names of ``quarterjack``."""
    names = sorted((n for n in quarterjack.__all__ if n != "errors"), key=lambda n: (*_ORDER, n).index(n))
    for name in names:
        yield from _entry(name, getattr(quarterjack, name))


def option_words() -> Iterator[str]:
    """The words that options take, by the names that signatures have for them."""
    yield "| in signatures | words |\n|---|---|"
    for alias, home in _WORDS.items():
        if alias.removesuffix("Word") in quarterjack.__all__:  # an enum with an entry of its own
            continue
        parts = [part for part in get_args(getattr(home, alias)) if get_origin(part) is Literal] or [
            getattr(home, alias)
        ]
        words = [f'`"{word}"`' for part in parts for word in get_args(part)]
        if alias == "TransitionKindWord":
            words = ["the kinds of [the archive](../how-to/archive.md#a-line)"]
        yield f"| `{alias}` | {', '.join(words)} |"


def api_http() -> Iterator[str]:
    """The public names of ``quarterjack.ready_jobs.http``."""
    for name in ("http_job", "Request", "Secret", "send"):
        yield from _entry(name, getattr(http, name))


def api_notifiers() -> Iterator[str]:
    """The public functions of ``quarterjack.ready_jobs.notifiers``."""
    for name in ("webhook_notifier", "slack_notifier", "pagerduty_notifier", "sns_notifier"):
        yield from _entry(name, getattr(notifiers, name))


def api_testing() -> Iterator[str]:
    """The public names of ``quarterjack.testing``."""
    for name in ("Harness", *(n for n in testing.__all__ if n != "Harness")):
        yield from _entry(name, getattr(testing, name))


def settings_table() -> Iterator[str]:
    """The fields of Settings, their variables and defaults."""
    remark_of = remarks(settings.Settings)
    for field in fields(settings.Settings):
        variable, what = re.split("[:;] ", remark_of[field.name], maxsplit=1)
        default = ("off", "on")[field.default] if isinstance(field.default, bool) else field.default
        given = "" if default is None else f", default `{default}`"
        yield f"- `{field.name}` ({_variables(variable)}{given}): {_line(what)}"


def errors_table() -> Iterator[str]:
    """All errors under their one root."""
    for _, error in inspect.getmembers(errors, inspect.isclass):
        if error.__module__ == errors.__name__:
            bases = [f"`{base.__name__}`" for base in error.__bases__ if base is not errors.QuarterjackError]
            of = f" ({', '.join(bases)})" if bases else ""
            yield f"- `{error.__name__}`{of}: {_line(inspect.getdoc(error) or '')}"


def states() -> Iterator[str]:
    """The states of a run."""
    yield "| state | meaning | |\n|---|---|---|"
    for name, what in remarks(RunState).items():
        yield f"| `{name}` | {what} | {'terminal' if name in TERMINAL else ''} |"


def transitions_table() -> Iterator[str]:
    """The transitions of a run."""
    yield from (f"- `{name}`: {_line(inspect.getdoc(make) or '')}" for name, make in transition_makers().items())


def commands() -> Iterator[str]:
    """The command line, in the groups of its help. An option that several commands have is described once, in front."""
    found = [(path, command, _records(path, command)) for path, command in leaves(whole(), ("quarterjack",))]
    counts = Counter(record for _, _, records in found for record in records)
    commonest = {name: (name, what) for (name, what), _ in reversed(counts.most_common())}
    usual = {record for record, count in counts.items() if count > len(found) * _USUAL}
    shared = {record for record, count in counts.items() if count >= _SHARED and commonest[record[0]] == record}
    definition = _definition({path[1:]: records for path, _, records in found})
    yield "## Options and arguments of several commands\n\nA command below names those that it has.\n"
    yield from (f"- `{name}` (of nearly every command): {what}" for name, what in sorted(usual, key=_by_name))
    yield from (f"- `{name}`: {what}" for name, what in sorted(shared - definition - usual, key=_by_name))
    yield "\n## Options of a definition\n\n`schedules create`, `upsert` and `update` have all of these.\n"
    yield from (f"- `{name}`: {what}" for name, what in counts if (name, what) in definition)
    panel = ""
    for path, command, records in found:
        if (heading := COMMANDS[path[1]].panel) != panel:
            panel = heading
            yield f"\n## {panel}"
        usage = command.collect_usage_pieces(command.make_context(path[-1], [], resilient_parsing=True))
        words = [word for word in usage if word != "[OPTIONS]"]
        yield f"\n### `{' '.join((*path, *words))}`\n\n{inspect.cleandoc(command.help or '')}\n"
        defines = definition <= set(records)
        yield from (f"- `{name}`: {what}" for name, what in records if (name, what) not in shared)
        also = [f"`{_option(name)}`" for name, what in records if (name, what) in shared - definition - usual]
        also = [name for name in also if name.startswith("`-")] + [
            "[a definition's](#options-of-a-definition)"
        ] * defines
        if also:
            yield f"- Also {', '.join(also)}"


def _records(path: tuple[str, ...], command: Any) -> list[tuple[str, str]]:
    """The options and arguments of a command as its help has them: name and text."""
    context = command.make_context(path[-1], [], resilient_parsing=True)
    records = [record for option in command.params if (record := option.get_help_record(context))]
    texts = [(name, " ".join(what.removesuffix("[required]").split())) for name, what in records]
    return [(name, what) for name, what in texts if not name.startswith("--help")]


def _definition(records_of: Mapping[tuple[str, ...], list[tuple[str, str]]]) -> set[tuple[str, str]]:
    """The options that say what a schedule is: those of an update that creating has too, and no other command."""
    both = set(records_of["schedules", "create"]) & set(records_of["schedules", "update"])
    lists = [records for path, records in records_of.items() if path[0] == "schedules" and path[1] in _OTHER_CHANGES]
    return both - {record for records in lists for record in records}


def _option(name: str) -> str:
    """An option without the type of its value."""
    return re.sub(r" (<.+>|[A-Z]+)$", "", name).partition(", ")[2] or re.sub(r" (<.+>|[A-Z]+)$", "", name)


def _by_name(record: tuple[str, str]) -> tuple[bool, str]:
    return record[0].startswith("-"), record[0].lstrip("-")


def exits() -> Iterator[str]:
    """Exit codes of the command line. Those that differ in the run's state are one line."""
    lines = [[str(ExitCode[name].value), _line(what)] for name, what in remarks(ExitCode).items()]
    for before, line in zip(lines[-2::-1], lines[:0:-1], strict=True):  # from the last line up
        if line[1].startswith("the same: "):
            before[0] += f", {line[0]}"
            before[1] += f", {line[1].removeprefix('the same: ')}"
            lines.remove(line)
    yield from (f"- {codes}: {what}" for codes, what in lines)


def http_routes() -> Iterator[str]:
    """The routes of the API, in the groups of its document."""
    document, group = openapi_document(create_app(quarterjack.Scheduler)), ""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if (heading := operation["tags"][0]) != group:
                group = heading
                yield f"\n### {group.capitalize()}\n"
            answers = [status for status in operation["responses"] if status[0] in "23" and status != "200"]
            short = path if group == "operators" else path.removeprefix("/v1/tenants/{tenant}")
            what = _line(operation["description"].partition("\n\n")[0])
            parts, marked = _parts(operation, document), f" ({', '.join(answers)})" if answers else ""
            yield f"- `{method.upper()} {short}`{marked}: {what}" + (f" Takes {parts}." if parts else "")


def _parts(operation: dict[str, Any], document: dict[str, Any]) -> str:
    """What a request may have in its query and in its body; what is needed is in bold type."""
    given = [(one["name"], one.get("required")) for one in operation.get("parameters", ()) if one["in"] == "query"]
    for content in list(operation.get("requestBody", {}).get("content", {}).values())[:1]:
        body = content["schema"]
        found = next((one for one in body.get("anyOf", [body]) if "$ref" in one), body)
        if "$ref" in found:
            found = document["components"]["schemas"][found["$ref"].rpartition("/")[2]]
        if "overlap" in found.get("properties", {"overlap": None}):  # a patch may have any of its words
            named = ["**`name`**"] if "name" in found.get("required", ()) else []
            return ", ".join([*named, "[a definition](#a-definition)"])
        given += [(name, name in found.get("required", ())) for name in found["properties"]]
    return ", ".join(f"**`{name}`**" if needed else f"`{name}`" for name, needed in given)


def http_problems() -> Iterator[str]:
    """The codes of problems, with their statuses and the errors of the SDK."""
    errors_of: dict[tuple[int, str, str], list[str]] = {}
    for error, kind in KINDS.items():
        errors_of.setdefault((kind.status, kind.code, kind.title), []).append(f"`{error.__name__}`")
    for kind in (*REFUSALS.values(), INVALID_CREDENTIALS):
        errors_of.setdefault((kind.status, kind.code, kind.title), [])
    for (status, code, title), names in sorted(errors_of.items()):
        if code != "internal":
            yield f"- {status} `{code}`: {', '.join(names) or title}"
    yield "- 500 `internal`: any other error of the server; its log has it"


def decisions() -> Iterator[str]:
    """The titles of the records of decisions, each of which has its decision under that heading."""
    for place in sorted((DOCS / "adr").glob("[0-9]*.md")):
        text = place.read_text(encoding="utf-8")
        title = text.splitlines()[0].removeprefix("# ")
        _check_decision(place.name, text)
        yield f"- [{title}]({place.name})"


def _check_decision(name: str, text: str) -> None:
    """Raises ValueError if there is no sentence below the heading Decision."""
    if re.search(r"^## Decision[\s-]*.+?(?:\.|:$)(?:\s|$)", text, re.MULTILINE) is None:
        message = f"docs/adr/{name}: it needs a heading '## Decision' with a sentence below it"
        raise ValueError(message)


def roles() -> Iterator[str]:
    """Every verb, and the roles that have it."""
    yield f"| verb | what | {' | '.join(Role)} |\n|---|---|{'---|' * len(Role)}"
    what = remarks(Verb)
    for verb in Verb:
        has = " | ".join("x" if verb in ROLES[role] else "" for role in Role)
        yield f"| `{verb}` | {what.get(verb.name, '')} | {has} |"


def calls() -> Iterator[str]:
    """Every method with the verbs that it needs, and for which jobs."""
    groups: dict[tuple[str, str], list[str]] = {}
    for owner, table in (("Scheduler", CALLS), ("Tenants", OF_TENANTS)):
        for name, call in table.items():
            verbs, more = ", ".join(f"`{verb}`" for verb in call.verbs), f": {call.when}" if call.when else ""
            groups.setdefault((f"{verbs}{more}", call.about), []).append(f"`{owner}.{name}`")
    yield from (f"- {verbs}; for {about}: {', '.join(names)}" for (verbs, about), names in groups.items())


def metrics_of(role: Emitter) -> Iterator[str]:
    """The metrics of a role: what each says, which fields are beside it, and which alarms read it."""
    for name, metric in signals.METRICS.items():
        if role not in metric.roles:
            continue
        parts = [_UNITS[metric.unit], *(() if metric.kind == "counter" else (str(metric.kind),))]
        parts += [f"by {', '.join(f'`{each}`' for each in metric.names)}"] if metric.names else []
        parts += ["by job"] if metric.by_job and not metric.names else []
        parts += ["processes only"] if metric.processes_only else []
        parts += [f"also of the {other}" for other in metric.roles if other is not role]
        alarms = ", ".join(f"[{each}](../runbooks/{each}.md)" for each in alarms_on(name))
        yield f"- `{name}` ({', '.join(parts)}): {metric.meaning}" + (f". Alarm: {alarms}" if alarms else "")


def alarms_on(name: str) -> list[str]:
    """The ids of the alarms that read a metric of ours."""
    ours = ((spec.id, figure) for spec in SPECS for figure in spec.figures.values())
    return sorted({alarm for alarm, figure in ours if figure.name == name and figure.source is Source.OURS})


def alarms() -> Iterator[str]:
    """Every alarm: when it goes off, of what part it is, and which alarms page in its place."""
    yield "| alarm | severity | goes off at | told within | of | not while |\n|---|---|---|---|---|---|"
    for spec in sorted(SPECS, key=lambda spec: (spec.severity, spec.id)):
        causes = ", ".join(f"`{cause}`" for cause in spec.hidden_by)
        of = f"{spec.each}, one page for all" if spec.one_page else str(spec.each)
        cells = [_condition(spec), _told(spec), of, causes]
        yield f"| [`{spec.id}`](../runbooks/{spec.id}.md) | {spec.severity} | {' | '.join(cells)} |"


def _told(spec: AlarmSpec) -> str:
    more = f" ({' and '.join(HOURLY)}: {spec.by_the_hour.told_within} min)" if spec.hourly else ""
    return f"{spec.told_within} min{more}"


def _condition(spec: AlarmSpec) -> str:
    if spec.windows:
        pairs = " or ".join(
            f"{one.rate:g} times as fast over {one.short} min and {one.long} min" for one in spec.windows
        )
        return f"a budget of {spec.threshold:g} {spec.unit}, used {pairs}"
    lasts = (
        f"in {spec.times} of {spec.values} values of {spec.period} min" if spec.values > 1 else f"in {spec.period} min"
    )
    if spec.hourly:
        lasts += f" ({' and '.join(HOURLY)}: {spec.by_the_hour.times} of {spec.by_the_hour.values} values of 60 min)"
    return f"{spec.compare} {spec.threshold:,} {spec.unit}, {lasts}"


_UNITS = {
    Unit.COUNT: "count",
    Unit.MILLISECONDS: "ms",
    Unit.MEGABYTES: "MB",
    Unit.PERCENT: "%",
}

BLOCKS: dict[str, Callable[[], Iterator[str]]] = {
    "exit-codes": exits,
    "alarms": alarms,
    "api": api,
    "option-words": option_words,
    **{f"metrics-{role}": partial(metrics_of, role) for role in Emitter},
    "api-http": api_http,
    "api-notifiers": api_notifiers,
    "api-testing": api_testing,
    "calls": calls,
    "commands": commands,
    "decisions": decisions,
    "errors": errors_table,
    "http-problems": http_problems,
    "http-routes": http_routes,
    "roles": roles,
    "settings": settings_table,
    "states": states,
    "transitions": transitions_table,
}


# Facts read from the code.


def transition_makers() -> dict[str, Callable[..., Transition]]:
    """The constructors of transitions by name, in the order of a run's phases."""
    found: dict[str, Callable[..., Transition]] = {}
    for phase in _PHASES:
        made = [f for _, f in inspect.getmembers(phase, inspect.isfunction) if f.__module__ == phase.__name__]
        public = sorted(
            (f for f in made if f.__annotations__.get("return") == "Transition" and not f.__name__.startswith("_")),
            key=lambda f: f.__code__.co_firstlineno,
        )
        found |= {f.__name__: f for f in public}
    return found


def leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The commands below a group, each with the words that call it."""
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    if command.invoke_without_command:
        yield path, command
    for name, child in children.items():
        yield from leaves(child, (*path, name))


# Entries of the API.


def _entry(name: str, thing: Any) -> Iterator[str]:
    yield f"## `{name}`\n"
    if isinstance(thing, type):
        yield _prose(inspect.getdoc(thing) or "")
        yield from _body(thing) if thing not in _ELSEWHERE else [f"{_ELSEWHERE[thing]}\n"]
        return
    if isinstance(thing, tuple):  # of classes
        yield f"`({', '.join(one.__name__ for one in thing)})`: exceptions for `Retry(never_on=…)`.\n"
        return
    yield _signature(name, thing)
    yield _prose(inspect.getdoc(thing) or "")


def _body(kind: type) -> Iterator[str]:
    if issubclass(kind, Enum):
        yield from (f"- `{_member_name(kind[name])}`: {_line(what)}" for name, what in remarks(kind).items())
        yield ""
    elif is_dataclass(kind):
        yield from _fields(kind)
    elif kind is quarterjack.AsyncScheduler:
        yield "    AsyncScheduler(..., threads: int = THREADS)\n"
    elif inspect.isfunction(init := inspect.getattr_static(kind, "__init__")):
        yield _signature(kind.__name__, init)
    members = public_members(kind)
    others = [name for name, member in members.items() if _is_elsewhere(kind, name, member)]
    short = [name for name in members if name not in others and _is_short(kind, name, members[name])]
    if kind is testing.Memory:  # its methods have the names of what they return or put
        yield f"Its members are {', '.join(f'`{name}`' for name in short)}."
    else:
        yield from (f"- `{_short_signature(name, members[name])}`: {_line(_doc(kind, name))}" for name in short)
    yield from [""] * bool(short)
    for name, member in members.items():
        if name not in others and name not in short:
            yield from _member(kind, name, member)
    if others:
        yield "All other methods are those of [`Scheduler`](#scheduler).\n"


def _doc(kind: type, name: str) -> str:
    return inspect.getdoc(getattr(kind, name)) or ""


def _is_elsewhere(kind: type, name: str, member: Any) -> bool:
    """Whether a method only passes on to another class, which describes it."""
    return hasattr(member, "__wrapped__") or _doc(kind, name).startswith("See ``Scheduler.")


def _is_short(kind: type, name: str, member: Any) -> bool:
    """Whether one line describes a member. Those of the classes in _HEADED have headings of their own, to be linked."""
    return (
        kind.__name__ not in _HEADED
        and "\n\n" not in _doc(kind, name)
        and len(_short_signature(name, member)) <= _WIDE
        and not (kind is quarterjack.Registry and name in _OF_REGISTRY)
    )


def _short_signature(name: str, member: Any) -> str:
    return name if isinstance(member, property) else _signature(name, member).strip()


def _member_name(member: Enum) -> str:
    """A member of an enum, with its value where that is another word."""
    same = str(member.value).lower() == member.name.lower()
    return repr(member.value) if same else f"{member.name} = {member.value!r}"


def _fields(kind: Any) -> Iterator[str]:
    what = remarks(kind)
    for field in fields(kind):
        if field.name.startswith("_") or not field.init or "``pinning" in what.get(field.name, ""):
            continue
        default = "" if field.default is MISSING or kind not in _MADE else f" = {_shown(field.default)}"
        if field.default_factory is not MISSING and kind in _MADE:
            default = f" = {_shown(field.default_factory())}"
        yield f"- `{field.name}: {field.type}{default}`: {_line(what.get(field.name, ''))}"
    yield ""


def public_members(kind: type) -> dict[str, Any]:
    """The public methods and properties of a class and its bases here, in the order in which they are written."""
    ours = [base for base in kind.__mro__ if base.__module__.partition(".")[0] == quarterjack.__name__]
    written = [(name, member) for base in ours for name, member in vars(base).items() if not name.startswith("_")]
    found = {name: member for name, member in written if inspect.isfunction(member) or isinstance(member, property)}
    return {name: inspect.getattr_static(kind, name) for name in found}


def _member(kind: type, name: str, member: Any) -> Iterator[str]:
    if kind is quarterjack.Registry and name in _OF_REGISTRY:
        same = _OF_REGISTRY[name]
        yield f"### `{kind.__name__}.{name}`\n\nAs [`{same}`](#{same.lower()}), for this registry.\n"
        return
    text = _prose(inspect.getdoc(getattr(kind, name)) or "")
    if isinstance(member, property):
        yield f"### `{kind.__name__}.{name}` (property)\n\n{text}"
    else:
        yield f"### `{kind.__name__}.{name}`\n\n{_signature(name, member)}\n{text}"


def _signature(name: str, function: Any) -> str:
    """A function's signature as it is written in the code, without ``self``."""
    tree = _tree(function)
    name = name if isinstance(tree, ast.FunctionDef) else f"await {name}"
    parts = _parameters(tree.args)
    if original := vars(function).get("passes_on_to"):  # its parameters stand in the place of ``**given``
        passed = _parameters(_tree(original).args)
        parts = passed + [part for part in parts if part not in passed and not part.startswith("**")]
    returns = "" if tree.returns is None or tree.name == "__init__" else f" -> {ast.unparse(tree.returns)}"
    line = f"{name}({', '.join(parts)}){returns}"
    if len(line) > _WIDE:
        line = f"{name}(\n    " + ",\n    ".join(parts) + f",\n){returns}"
    return textwrap.indent(line, "    ") + "\n"


def _tree(function: Any) -> ast.FunctionDef | ast.AsyncFunctionDef:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body
    assert isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)
    return tree


def _parameters(arguments: ast.arguments) -> list[str]:
    """Each parameter as text, with the star before those that are given by keyword."""
    positional = arguments.args
    given = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    parts = [_parameter(one, default) for one, default in zip(positional, given, strict=True)]
    parts = parts[1:] if positional and positional[0].arg in ("self", "cls") else parts
    if arguments.vararg is not None:
        parts.append("*" + _parameter(arguments.vararg, None))
    elif arguments.kwonlyargs:
        parts.append("*")
    parts += [
        _parameter(one, default) for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return parts + ([] if arguments.kwarg is None else ["**" + _parameter(arguments.kwarg, None)])


def _parameter(one: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(one) + ("" if default is None else f" = {ast.unparse(default).replace('NONE', 'None')}")


# Text.


def _prose(docstring: str) -> str:
    """A docstring as Markdown, without its examples: the guides have them, with their stories."""
    lines, example = list[str](), False
    for line in _USUAL_ERRORS.sub("", docstring).splitlines():
        example = line.startswith(">>>") or (example and bool(line.strip()))
        lines += [] if example else [line]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines).strip()) + "\n"


def _cell(text: str) -> str:
    """Text within a table's cell."""
    return _line(_escaped(text))


def _line(text: str) -> str:
    """Text of a docstring or remark on one line."""
    return " ".join(_USUAL_ERRORS.sub("", text).replace("``", "`").split())


def _code(value: object) -> str:
    return f"`{_escaped(_shown(value))}`"


def _shown(value: object) -> str:
    return str(value) if isinstance(value, Enum) else repr(value)


def _escaped(text: object) -> str:
    return str(text).replace("|", "\\|")


def _variables(text: str) -> str:
    names = re.findall(r"[A-Z][A-Z_]+", text)
    return " or ".join(f"`{name}`" for name in names)


# Writing.


def pages() -> Iterator[tuple[Path, str, str]]:
    """Every page with generated blocks: where, as it is, as it should be."""
    for page in sorted(DOCS.rglob("*.md")):
        present = page.read_text(encoding="utf-8")
        wanted = _MARKED.sub(
            lambda found: found[1] + "\n".join(BLOCKS[found[2]]()).strip("\n") + "\n" + found[3], present
        )
        if _MARKED.search(present):
            yield page, present, wanted
    place = _PACKAGE / "apply" / schema.SCHEMA
    yield place, place.read_text(encoding="utf-8") if place.exists() else "", schema.build(remarks)


def main(arguments: list[str]) -> int:
    """Write, or with ``--check`` only look."""
    stale = [(page, wanted) for page, present, wanted in pages() if present != wanted]
    for page, wanted in stale:
        sys.stdout.write(f"{page.relative_to(DOCS.parent)}\n")
        if "--check" not in arguments:
            page.write_text(wanted, encoding="utf-8")
    return int("--check" in arguments and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

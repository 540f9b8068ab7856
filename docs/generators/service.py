"""What an installation answers and says: routes and problems of the HTTP API, metrics, alarms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import quarterjack
from quarterjack.domain.message import MESSAGE_SCHEMA, SCHEMA
from quarterjack.domain.notice import SCHEMA as NOTICE
from quarterjack.moving.file import VERSION as DUMP
from quarterjack.signals import catalogue as signals
from quarterjack.signals.measurement import Emitter, Unit
from quarterjack.state.capacity.walls import walls
from quarterjack.state.history.codec import FORM
from quarterjack.version import VERSION
from quarterjack.web import create_app
from quarterjack.web.app import openapi_document
from quarterjack.web.error_kinds import INVALID_CREDENTIALS, KINDS, REFUSALS

from docs.generators.text import one_line
from infra.alarms.plan import HOURLY
from infra.alarms.spec import AlarmSpec
from infra.alarms.specs import SPECS
from infra.figures import Source


def forms_table() -> Iterator[str]:
    """The numbers of the stored forms that this release writes and reads."""
    line = ".".join(VERSION.split(".")[:2])
    yield f"| form | its number | {line} writes | {line} reads |\n|---|---|---|---|"
    yield f"| items of the [tables](tables.md) | `v`; without it 1 | {SCHEMA} | {SCHEMA} |"
    yield f"| letters of the dead-letter queue | `letter` | {SCHEMA} | {SCHEMA} |"
    yield f"| messages of the other [queues](tables.md#queues) | `v` | {MESSAGE_SCHEMA} | {MESSAGE_SCHEMA} |"
    yield f"| pages of the [history](../explanation/history.md) | the first byte | {FORM} | {FORM} |"
    yield f"| [notifications](../how-to/notifications.md) | `schema` | {NOTICE} | {NOTICE} |"
    yield f"| the file of [`quarterjack move`](dump.md) | `version` | {DUMP} | {DUMP} |"


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
            what = one_line(operation["description"].partition("\n\n")[0])
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


def metrics_of(role: Emitter) -> Iterator[str]:
    """The metrics of a role: what each says, which fields are beside it, and which alarms read it."""
    for name, metric in signals.METRICS.items():
        if role not in metric.roles:
            continue
        parts = [_UNITS[metric.unit], *(() if metric.kind == "counter" else (str(metric.kind),))]
        parts += [f"by {', '.join(f'`{each}`' for each in metric.names)}"] if metric.names else []
        parts += ["by job"] if metric.by_job else []
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


def walls_table() -> Iterator[str]:
    """Where an installation stops growing on the way to 10,000 runs a second."""
    yield "| wall | runs a second | why | moved by |"
    yield "|---|---|---|---|"
    for wall in walls():
        yield f"| {wall.what} | {wall.most:,} | {wall.why} | {wall.moved_by} |"

"""Tables of options, from which parameters of commands are made: a schedule's, and the filters of schedules and dead runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_type_hints

import typer

from quarterjack.cli.parameters import Command, option, payload_of, read_tags, with_parameters
from quarterjack.cli.typed import COMING, PAST, Duration, Seconds, TypedTime
from quarterjack.domain.options import OptionWords
from quarterjack.domain.policies import Retry
from quarterjack.domain.policies.flow import Flow
from quarterjack.errors import InvalidInput
from quarterjack.timing import Rule
from quarterjack.values import replace

WholeSeconds = Duration(whole=True)


@dataclass(frozen=True)
class OptionSpec:
    name: str  # as the SDK calls it
    kind: Any  # type of its value, or what reads it
    help: str
    flag: str | None = None  # on the command line, if it is not made from the name
    panel: str | None = None  # heading in the help

    @classmethod
    def all(cls, panel: str | None, *rows: tuple[str, Any, str] | tuple[str, Any, str, str]) -> tuple[OptionSpec, ...]:
        """Several options under one heading."""
        return tuple(replace(cls(*row), panel=panel) for row in rows)

    def parameter(self) -> inspect.Parameter:
        """The option as a parameter of a command; None: not given."""
        flag = self.flag or "--" + self.name.replace("_", "-")
        declared = f"{flag}/--no-{flag.removeprefix('--')}" if self.kind is bool and "/" not in flag else flag
        shown = typer.Option(declared, help=self.help, rich_help_panel=self.panel, show_default=False)
        if isinstance(self.kind, TypedTime):
            return option(self.name, datetime | None, None, self.kind, shown)
        if isinstance(self.kind, Duration):
            return option(self.name, float | None, None, self.kind, shown)
        return option(self.name, self.kind | None, None, shown)


_LABELS = OptionSpec.all(
    None,
    ("payload", str, "Payload of the job: JSON, or - for standard input."),
    ("description", str, "Description for people."),
    ("tags", list[str], "Tag, key=value. Repeatable.", "--tag"),
)
_TIMES = OptionSpec.all(
    "When",
    ("timezone", str, "IANA time zone of the expression, e.g. Europe/Berlin."),
    ("also", list[str], "A further expression. Repeatable."),
    (
        "exclude",
        list[str],
        "Days without fires: a date, a range 2026-12-24/2026-12-31, weekends, or a cron expression. Repeatable.",
    ),
    ("calendar", str, "Public holidays to exclude, by country and subdivision: DE, DE-BY."),
    ("on_excluded", str, "Treatment of a fire on an excluded day: skip, next_business_day or previous_business_day."),
    ("gap", str, "Treatment of a wall time that a clock change skips: next_valid, skip or shift."),
    ("repeated", str, "Treatment of a wall time that occurs twice: first, second or both."),
    ("rule_start", COMING, "Earliest fire, e.g. 2026-12-24T18:00:00Z, or 'tomorrow 09:00'.", "--from"),
    ("rule_end", COMING, "Latest fire.", "--until"),
    ("max_fires", int, "Maximum number of fires."),
    (
        "window",
        WholeSeconds,
        "Maximum delay of the fires, e.g. 10m; all fires of the schedule have the same delay.",
    ),
    ("jitter", WholeSeconds, "Maximum random delay of each fire."),
)
_EXECUTION = OptionSpec.all(
    "Execution, instead of the job's own policies",
    ("delivery", str, "Delivery: at_least_once, exactly_once or at_most_once."),
    ("start", str, "Start mode: prompt or exact."),
    ("priority", str, "Priority in a queue that has lanes: high, normal or low."),
    ("max_attempts", int, "Maximum number of attempts."),
    ("backoff", str, "Growth of the wait between attempts: exponential, linear or fixed."),
    ("retry_base", Seconds, "Wait before the second attempt, e.g. 30s."),
    ("retry_cap", Seconds, "Maximum wait between two attempts, e.g. 10m."),
    ("retry_within", Seconds, "Time after the due time, after which no attempt starts."),
    ("timeout", Seconds, "Time limit of one attempt, e.g. 5m."),
    ("deadline", Seconds, "Time after the due time, e.g. 1h, after which the run does not start."),
    (
        "flow_key",
        str,
        "Path into the payload, e.g. customer: runs with the same value there share the limits that follow.",
    ),
    ("flow_name", str, "Name that the flows of several jobs share."),
    ("at_a_time", int, "Maximum number of concurrent runs of a key."),
    ("per_minute", int, "Maximum number of starts of a key a minute."),
    ("burst", int, "Maximum number of starts at once after a quiet time."),
    ("flow_order", str, "Order of the runs that wait: fifo or priority."),
    ("on_full", str, "Run without a permit of its key: wait, skip_new, keep_newest or cancel_old."),
    ("flow_strict", bool, "Runs wait while permits of their key cannot be read or written."),
)
_OPTIONS = OptionSpec.all(
    "Late, overlapping and failed runs",
    ("queue", str, "Name of a declared queue."),
    ("catch_up", str, "Missed fires that run late: all, latest or none."),
    ("catch_up_window", Seconds, "Maximum age of a missed fire, e.g. 6h. Older fires are recorded as skipped."),
    ("automatic_backfill", bool, "Run all fires of an outage or a pause afterwards, regardless of the window."),
    (
        "overlap",
        str,
        "Treatment of a fire while the previous run is open: allow, skip, buffer_one, buffer_all, cancel_other or terminate_other.",
    ),
    ("buffer", int, "Maximum number of waiting runs."),
    ("max_running", int, "Maximum number of concurrent runs."),
    ("pause_on_failure", int, "Number of consecutive runs that failed for good, after which the schedule is paused."),
    ("delete_after_completion", bool, "Delete the schedule after its last fire."),
    ("shadow", bool, "Record fires and start no run."),
    ("on_failure", str, "Notified of an incident: ARN of an SNS topic, or job:NAME."),
    ("on_recovery", str, "Notified of the first success after an incident: ARN of an SNS topic, or job:NAME."),
    ("expect_success_within", Seconds, "Time without a success, e.g. 26h, after which an incident opens."),
    (
        "alert_if_running_longer_than",
        Seconds,
        "Time after its first start, e.g. 2h, at which a run that has not ended is reported.",
        "--alert-if-longer-than",
    ),
    (
        "must_end_by",
        Duration(time_of_day=True),
        "Time of day, e.g. 06:00, or time after the due time, at which a run that has not ended is reported.",
    ),
)
RETRY = {
    "max_attempts": "max_attempts",
    "backoff": "backoff",
    "retry_base": "base",
    "retry_cap": "cap",
    "retry_within": "within",
}
FLOW = {
    "flow_key": "key",
    "flow_name": "name",
    "at_a_time": "at_a_time",
    "per_minute": "per_minute",
    "burst": "burst",
    "flow_order": "order",
    "on_full": "on_full",
    "flow_strict": "strict",
}
RULE = {word.name: word.name for word in _TIMES} | {"rule_start": "start", "rule_end": "end"}
WORDS = (*_LABELS, *_TIMES, *_EXECUTION, *_OPTIONS)
_FILTERS = OptionSpec.all(
    "Which schedules",
    ("prefix", str, "Only schedules with this name prefix."),
    ("contains", str, "Only schedules whose name contains this text."),
    ("state", str, "Only schedules in this state: ACTIVE, PAUSED or COMPLETED."),
    ("job", str, "Only schedules of this job."),
    ("tag", str, "Only schedules with this tag: key=value, or key for any value."),
    ("managed_by", str, "Only schedules that this package or file declares."),
    ("failing", bool, "Only schedules with an open incident, or without one.", "--failing/--not-failing"),
)
_DEAD_FILTERS = OptionSpec.all(
    "Which dead runs",
    ("job", str, "Only runs of this job."),
    ("schedule", str, "Only runs of this schedule."),
    ("until", PAST, "Only runs that died before this time, e.g. -1h, or 2026-12-24T18:00:00Z."),
    ("error_type", str, "Only runs with this exception, e.g. TimeoutError."),
    ("since", PAST, "Only runs that died after this time, e.g. -3d. Default: 24 hours ago."),
)
_PURGE_SINCE = OptionSpec.all("Which dead runs", ("since", PAST, "Only runs that died after this time, e.g. -3d."))
OPTIONAL = tuple(name for name, kind in get_type_hints(OptionWords).items() if kind == kind | None)


@dataclass(frozen=True)
class ParsedOptions:
    """Parsed options as SDK arguments. Those of the rule are separate, because they replace a rule as a whole."""

    words: Mapping[str, Any]
    rule: Mapping[str, Any]

    @property
    def has_rule(self) -> bool:
        """Whether there is an option that needs a rule."""
        return not set(self.rule) <= {"timezone"}

    def definition(self, expression: str) -> dict[str, Any]:
        """Arguments of the SDK for a new schedule. A rule has its own time zone."""
        if self.has_rule:
            return {"expression": Rule.of(expression, **self.rule), **self.words}
        return {"expression": expression, **self.rule, **self.words}

    def rule_after(self, present: Rule, expression: str | None) -> Rule:
        """The rule of an existing schedule with the given options."""
        changes = dict(self.rule) if expression is None else {"expression": expression, **self.rule}
        return replace(present, **changes, last=None)


def _with_options(
    specs: Iterable[OptionSpec], parse: Callable[[dict[str, Any]], dict[str, Any]] = dict
) -> Callable[[Command], Command]:
    """A decorator that adds options to a command. The command gets them, parsed, as keywords."""
    known = tuple(specs)

    def decorate(function: Command) -> Command:
        def call(**given: Any) -> Any:
            added = parse({spec.name: given.pop(spec.name) for spec in known})
            return function(**given, **added)

        return with_parameters(function, [spec.parameter() for spec in known], call)

    return decorate


def _parse_filter(given: dict[str, Any]) -> dict[str, Any]:
    """Conditions as the SDK takes them, without the missing ones. Raises InvalidInput."""
    found = {name: value for name, value in given.items() if value is not None}
    key, equals, value = found.get("tag", "").partition("=")
    return found | ({"tag": (key, value)} if equals else {})


with_schedule_options = _with_options(WORDS)
with_filters = _with_options(_FILTERS, _parse_filter)
with_coming_filters = _with_options([one for one in _FILTERS if one.name != "state"], _parse_filter)
with_dead_filters = _with_options(_DEAD_FILTERS, _parse_filter)
with_purge_filters = _with_options((*_DEAD_FILTERS[:-1], *_PURGE_SINCE), _parse_filter)  # of any age


def parse_options(words: Mapping[str, Any], *, unset: Iterable[str] | None = None) -> ParsedOptions:
    """The options that were given. Raises InvalidInput."""
    given = {name: value for name, value in words.items() if value not in (None, [])}
    rule = {argument: given.pop(name) for name, argument in RULE.items() if name in given}
    retry = {argument: given.pop(name) for name, argument in RETRY.items() if name in given}
    if retry:
        given["retry"] = Retry(**retry)
    flow = {argument: given.pop(name) for name, argument in FLOW.items() if name in given}
    if flow:
        given["flow"] = flow_of(flow)
    if "tags" in given:
        given["tags"] = read_tags(given["tags"])
    return ParsedOptions(given | payload_of(given.get("payload")) | _unset(unset or ()), rule)


def flow_of(words: Mapping[str, Any]) -> Flow:
    """The flow of its options. Raises InvalidInput, which names the option."""
    try:
        return Flow(**words)
    except InvalidInput as problem:
        option = next((name for name, argument in FLOW.items() if argument == problem.field), problem.field)
        raise problem.about(option) from None


def _unset(names: Iterable[str]) -> dict[str, None]:
    """Options that are set to None. Raises InvalidInput for an option that always has a value."""
    words = {name.replace("-", "_"): name for name in names}
    for word, name in words.items():
        if word not in OPTIONAL:
            raise InvalidInput("unset", name, "always has a value", f"use one of {', '.join(OPTIONAL)}")
    return dict.fromkeys(words)

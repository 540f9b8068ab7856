"""Table of the schedule options, from which the parameters of create, update and upsert are made."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_type_hints

import typer

from minutehand.cli.output import read_moment, read_payload
from minutehand.cli.parameters import Command, option, with_parameters
from minutehand.domain.options import OptionWords
from minutehand.domain.policies import Retry
from minutehand.errors import InvalidInput
from minutehand.timing import Rule


@dataclass(frozen=True)
class OptionSpec:
    """One option."""

    name: str  # as the SDK calls it
    kind: Any  # of its value
    what: str  # help
    flag: str | None = None  # as the command line calls it, where that is not its name
    panel: str | None = None  # heading in the help

    @classmethod
    def all(cls, panel: str | None, *rows: tuple[str, Any, str] | tuple[str, Any, str, str]) -> tuple[OptionSpec, ...]:
        """Several under one heading."""
        return tuple(replace(cls(*row), panel=panel) for row in rows)

    def parameter(self) -> inspect.Parameter:
        """As a parameter of a command; None: not given."""
        flag = self.flag or "--" + self.name.replace("_", "-")
        declared = f"{flag}/--no-{flag.removeprefix('--')}" if self.kind is bool else flag
        shown = typer.Option(declared, help=self.what, rich_help_panel=self.panel, show_default=False)
        return option(self.name, self.kind | None, None, shown)


_LABELS = OptionSpec.all(
    None,
    ("payload", str, "What the job is given: JSON, or - to read it from standard input."),
    ("description", str, "Free text."),
    ("tags", list[str], "key=value; may be repeated.", "--tag"),
)
_TIMES = OptionSpec.all(
    "When",
    ("timezone", str, "IANA time zone of the expression, e.g. Europe/Berlin."),
    ("also", list[str], "A further expression; may be repeated."),
    (
        "exclude",
        list[str],
        "Never then: a date, a range 2026-12-24/2026-12-31, weekends, a cron expression; may be repeated.",
    ),
    ("calendar", str, "Public holidays to exclude, by country and subdivision: DE, DE-BY."),
    ("on_excluded", str, "What a fire on an excluded day does: skip, next_business_day or previous_business_day."),
    ("gap", str, "A wall time that the clocks skip: next_valid, skip or shift."),
    ("repeated", str, "A wall time that comes twice: first, second or both."),
    ("rule_start", str, "No fire before, e.g. 2026-12-24T18:00:00Z.", "--from"),
    ("rule_end", str, "No fire after.", "--until"),
    ("max_fires", int, "Fires in all."),
    ("window", int, "Spread each fire by less than so many seconds, stable by schedule."),
    ("jitter", int, "Spread each fire by less than so many seconds, by chance."),
)
_EXECUTION = OptionSpec.all(
    "How it is executed, instead of the job's own",
    ("delivery", str, "at_least_once, exactly_once or at_most_once."),
    ("start", str, "prompt or exact."),
    ("max_attempts", int, "Attempts in all."),
    ("backoff", str, "How the wait between attempts grows: exponential, linear or fixed."),
    ("retry_base", float, "Seconds before the second attempt."),
    ("retry_cap", float, "Seconds between two attempts at the most."),
    ("retry_within", float, "Seconds after the due time in which attempts may start."),
    ("timeout", float, "Seconds of one attempt."),
    ("deadline", float, "Seconds after the due time past which it does not start."),
)
_OPTIONS = OptionSpec.all(
    "When runs are late, meet or fail",
    ("queue", str, "Name of a declared queue."),
    ("catch_up", str, "Which missed fires run late: all, latest or none."),
    ("catch_up_window", float, "Seconds: what was due longer ago is skipped and recorded."),
    ("automatic_backfill", bool, "Treat the fires of a pause as missed when it is resumed."),
    (
        "overlap",
        str,
        "While the last run goes on: allow, skip, buffer_one, buffer_all, cancel_other or terminate_other.",
    ),
    ("buffer", int, "Runs that wait for others at the most."),
    ("max_running", int, "Runs at the same time at the most."),
    ("pause_on_failure", int, "Pause after so many runs in a row failed for good."),
    ("delete_after_completion", bool, "Delete it after its last fire."),
    ("shadow", bool, "Record its fires and start nothing."),
    ("on_failure", str, "Whom to tell: the ARN of an SNS topic, or job:NAME."),
    ("on_recovery", str, "Likewise, of the first success after."),
    ("expect_success_within", float, "Seconds: no success for so long is a failure too."),
)
_RETRY = {
    "max_attempts": "max_attempts",
    "backoff": "backoff",
    "retry_base": "base",
    "retry_cap": "cap",
    "retry_within": "within",
}
_RULE = {word.name: word.name for word in _TIMES} | {"rule_start": "start", "rule_end": "end"}
WORDS = (*_LABELS, *_TIMES, *_EXECUTION, *_OPTIONS)
OPTIONAL = tuple(name for name, kind in get_type_hints(OptionWords).items() if kind == kind | None)


@dataclass(frozen=True)
class ParsedOptions:
    """Parsed options as SDK arguments. Those of the rule are separate, because they replace a rule as a whole."""

    words: Mapping[str, Any]
    rule: Mapping[str, Any]

    def expression(self, text: str) -> str | Rule:
        """A new schedule's expression, or a rule if there are rule options."""
        return text if set(self.rule) <= {"timezone"} else Rule.of(text, **self.rule)

    def rule_after(self, present: Rule, expression: str | None) -> Rule:
        """The rule of an existing schedule with the given options."""
        said = dict(self.rule) if expression is None else {"expression": expression, **self.rule}
        return replace(present, **said, last=None)


def with_words(function: Command) -> Command:
    """A command with all options of the table. It gets them as keywords, None for a missing one."""

    def call(**given: Any) -> Any:
        return function(**given)

    return with_parameters(function, [word.parameter() for word in WORDS], call)


def given(words: Mapping[str, Any], *, unset: list[str] | None = None) -> ParsedOptions:
    """Parse the options. Raises InvalidInput."""
    said = {name: value for name, value in words.items() if value not in (None, [])}
    rule = {_RULE[name]: value for name, value in said.items() if name in _RULE}
    for bound, flag in (("start", "from"), ("end", "until")):
        if bound in rule:
            rule[bound] = read_moment(rule[bound], flag)
    plain = {name: value for name, value in said.items() if name not in _RULE and name not in _RETRY}
    retry = {_RETRY[name]: value for name, value in said.items() if name in _RETRY}
    if retry:
        plain["retry"] = Retry(**retry)
    if "payload" in plain:
        plain["payload"] = read_payload(plain["payload"])
    if "tags" in plain:
        plain["tags"] = read_tags(plain["tags"])
    return ParsedOptions(plain | _nothing(unset or []), rule)


def read_tags(pairs: list[str]) -> dict[str, str]:
    """``key=value`` pairs."""
    for pair in pairs:
        if "=" not in pair:
            raise InvalidInput("tag", pair, "has no value", "write --tag key=value")
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}


def _nothing(names: list[str]) -> dict[str, None]:
    """Options to be unset."""
    for name in names:
        if name.replace("-", "_") not in OPTIONAL:
            raise InvalidInput("unset", name, "always has a value", f"use one of {', '.join(OPTIONAL)}")
    return dict.fromkeys(name.replace("-", "_") for name in names)

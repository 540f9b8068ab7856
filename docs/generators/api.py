"""The public API: names, words of options, settings, errors, states and transitions of a run, verbs of calls."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin

import quarterjack
from quarterjack import errors, settings, testing
from quarterjack.domain import audit, options, policies, run, schedule
from quarterjack.domain.history import entry, transition_line
from quarterjack.domain.run import TERMINAL, RunState
from quarterjack.domain.tenants import caller
from quarterjack.domain.tenants.access import ROLES, Role, Verb
from quarterjack.ready_jobs import http, notifiers
from quarterjack.sdk.call_verbs import CALLS, OF_TENANTS
from quarterjack.sdk.schedules import bulk
from quarterjack.state import backfill, before_start, ending, lease
from quarterjack.state.transition import Transition
from quarterjack.state.waits import park
from quarterjack.web.shapes import remarks

from docs.generators.entries import entry_of
from docs.generators.text import one_line, variables

_PHASES = (before_start, lease, ending, park)  # modules of transitions

# Order of the public names on the page; other names follow.
_ORDER = (
    *(
        "job",
        "middleware",
        "Middleware",
        "CallNext",
        "schedule",
        "Context",
        "Retry",
        "Redact",
        "Delivery",
        "Start",
        "Registry",
        "load",
    ),
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


def api() -> Iterator[str]:
    """The public names of ``quarterjack``."""
    names = sorted((n for n in quarterjack.__all__ if n != "errors"), key=lambda n: (*_ORDER, n).index(n))
    for name in names:
        yield from entry_of(name, getattr(quarterjack, name))


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
        yield from entry_of(name, getattr(http, name))


def api_notifiers() -> Iterator[str]:
    """The public functions of ``quarterjack.ready_jobs.notifiers``."""
    for name in ("webhook_notifier", "slack_notifier", "pagerduty_notifier", "sns_notifier"):
        yield from entry_of(name, getattr(notifiers, name))


def api_testing() -> Iterator[str]:
    """The public names of ``quarterjack.testing``."""
    for name in ("Harness", *(n for n in testing.__all__ if n != "Harness")):
        yield from entry_of(name, getattr(testing, name))


def settings_table() -> Iterator[str]:
    """The fields of Settings, their variables and defaults."""
    remark_of = remarks(settings.Settings)
    for field in fields(settings.Settings):
        variable, what = re.split("[:;] ", remark_of[field.name], maxsplit=1)
        default = ("off", "on")[field.default] if isinstance(field.default, bool) else field.default
        given = "" if default is None else f", default `{default}`"
        yield f"- `{field.name}` ({variables(variable)}{given}): {one_line(what)}"


def errors_table() -> Iterator[str]:
    """All errors under their one root."""
    for _, error in inspect.getmembers(errors, inspect.isclass):
        if error.__module__ == errors.__name__:
            bases = [f"`{base.__name__}`" for base in error.__bases__ if base is not errors.QuarterjackError]
            of = f" ({', '.join(bases)})" if bases else ""
            yield f"- `{error.__name__}`{of}: {one_line(inspect.getdoc(error) or '')}"


def states() -> Iterator[str]:
    """The states of a run."""
    yield "| state | meaning | |\n|---|---|---|"
    for name, what in remarks(RunState).items():
        yield f"| `{name}` | {what} | {'terminal' if name in TERMINAL else ''} |"


def transitions_table() -> Iterator[str]:
    """The transitions of a run."""
    yield from (f"- `{name}`: {one_line(inspect.getdoc(make) or '')}" for name, make in transition_makers().items())


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

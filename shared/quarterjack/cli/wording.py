"""Errors in the words of the command line: the one place that translates the SDK's parameters and methods into options and commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import copy
from datetime import datetime
from typing import Any

from quarterjack.errors import InvalidInput, QuarterjackError
from quarterjack.local_installations import CHOICE, OFFER

# Parameters of the SDK, and those of commands that stand for them. The first one that a command has is meant.
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "idempotency_key": ("key",),
    "run_at": ("at",),
    "base": ("retry_base",),
    "cap": ("retry_cap",),
    "within": ("retry_within",),
    "start": ("begin",),
    "end": ("end", "rule_end"),
    "jobs": ("jobs", "packages"),
    "each": ("count",),
    "between[0]": ("after",),
    "between[1]": ("before",),
    "name": ("name", "schedule", "target", "pipeline"),
    "run_id": ("run_id", "target", "name", "pipeline"),
    "format": ("form",),
    "id": ("backfill",),
    "add_jobs": ("add_job",),
    "expires_at": ("expires",),
    "remove_jobs": ("remove_job",),
}
# Methods of the SDK that errors name, and their commands.
COMMANDS: Mapping[str, str] = {
    "archive": "archive read",
    "backfill": "schedules backfill",
    "bulk_runs": "runs bulk",
    "cancel_run": "runs cancel",
    "create_schedule": "schedules create",
    "delete_schedule": "schedules delete",
    "list_backfills": "backfills list",
    "list_dead": "dead list",
    "retire_application_version": "versions retire",
    "signal": "runs signal",
    "list_links": "runs links",
    "list_pipelines": "pipelines list",
    "list_runs": "runs list",
    "list_schedules": "schedules list",
    "pause_schedule": "schedules pause",
    "queues": "queues list",
    "rebuild_history": "history rebuild",
    "redrive": "dead redrive",
    "reassign_run": "runs reassign",
    "replay_run": "runs replay",
    "requeue": "runs requeue",
    "resume_schedule": "schedules resume",
    "retry_pipeline": "pipelines retry",
    "set_latest_application_version": "versions set-latest",
    "skip_next": "schedules skip-next",
    "skip_task": "pipelines skip",
    "task_stats": "pipelines stats",
    "submit": "submit",
    "submit_all": "runs submit-all",
    "trigger": "schedules trigger",
    "update_schedule": "schedules update",
    "upsert_schedule": "schedules upsert",
}
# What only a program can do, or writes in another form.
PHRASES: Mapping[str, str] = {
    OFFER: f"give --local before the command, as in `quarterjack --local schedules list`, or {OFFER}",
    CHOICE: f"give --local=PREFIX or --local=PORT before the command, or {CHOICE}",
    "pass strict=False to Scheduler": "leave --strict out",
    ", or None for no limit": "; without it there is no limit",
    "give jobs=, the list": "give --jobs, the list",
    "give seconds >= 0 or a timedelta": "give a time from now, e.g. 5m",
    "pass an aware datetime.datetime": "write e.g. 2026-12-24T18:00:00Z",
    'use ("key", "value"), or "key" for any value': "write key=value, or key for any value",
    'use {"key": "value"}, or {"key": None} to remove one': "give --set key=value, or --remove key",
    " in skip repeats it": " in --skip repeats it",
    "pass Schedule.revision": "give the revision that `quarterjack schedules get` prints",
}
_CALL = re.compile(r"\b(\w+)\(([^()]*)\)")
_WORD = re.compile(r"\b([a-z_]+)(=True\b|=)")
_BEGINNING = re.compile(r"\A([a-z_]+)(?=: )")
_INDEXED = re.compile(r"([a-z_]+)\[\d+\]")  # one of the values of an option that may be repeated
_PATH = re.compile(
    r"(payload)([.:].*)|(.*)", re.DOTALL
)  # a field, with the path in a payload; others may be places in files


class Wording:
    """The words of one command, by its parameters (of click) and their ``given`` values."""

    def __init__(self, params: Iterable[Any] = (), given: Mapping[str, Any] | None = None) -> None:
        params, given = tuple(params), given or {}
        self._typed = {str(one.name): _word_of(one) for one in params}
        self._given = {self._typed[str(one.name)]: given.get(str(one.name)) for one in params}

    def typed(self, parameter: str) -> str:
        """The option or argument of a command's parameter."""
        return self._typed[parameter]

    def error(self, problem: QuarterjackError) -> QuarterjackError:
        """The error in the words of the command."""
        if isinstance(problem, InvalidInput):
            field = self._field(problem)
            if not isinstance(problem.value, str) and isinstance(given := self._given.get(field), str):
                problem = InvalidInput(field, given, problem.problem, problem.remedy)
            reworded = problem.reworded(field, self.text)
            if field in self._given and (problem.value is None or problem.value is True):  # not given, or a flag
                reworded.args = (f"{field}: {reworded.problem}; {reworded.remedy}",)
            return reworded
        said = copy(problem)
        said.args = (self.text(str(problem)),)
        return said

    def text(self, text: str) -> str:
        """A message in the words of the command."""
        for phrase, said in PHRASES.items():
            text = text.replace(phrase, said)
        text = _BEGINNING.sub(lambda found: self._of(found[1]) or found[1], text)
        return _WORD.sub(self._option, _CALL.sub(_command, text))

    def _field(self, problem: InvalidInput) -> str:
        """The option or argument that a field stands for; a path below it is kept."""
        if problem.field == "start" and isinstance(problem.value, datetime) and "rule_start" in self._typed:
            return self._typed["rule_start"]
        below, path, field = _PATH.fullmatch(problem.field).groups()  # type: ignore[union-attr]  # anything matches
        typed = self._of(below or field)
        if typed is None and (indexed := _INDEXED.fullmatch(problem.field)):
            typed = self._of(indexed[1])  # the error says the value, so it needs no number
        return problem.field if typed is None else typed + (path or "")

    def _of(self, name: str) -> str | None:
        """The option or argument that stands for a parameter of the SDK or of the command; None: it has none."""
        name = name.replace("-", "_")
        return next((self._typed[one] for one in (*PARAMETERS.get(name, ()), name) if one in self._typed), None)

    def _option(self, found: re.Match[str]) -> str:
        typed, is_flag = self._of(found[1]), found[2] == "=True"
        if typed is None:
            return f"--{found[1].replace('_', '-')}" if is_flag else found[0]
        stands_alone = is_flag or (found.string[found.end() :] or " ")[0] in " ,;)"
        return typed if stands_alone else f"{typed}="


def _word_of(param: Any) -> str:
    """The name of a parameter in the help: its first option, or the argument's word in capitals."""
    return str(param.opts[0] if param.param_type_name == "option" else param.metavar or param.name)


def _command(found: re.Match[str]) -> str:
    command = COMMANDS.get(found[1])
    return found[0] if command is None else f"`quarterjack {' '.join(filter(None, (command, found[2])))}`"

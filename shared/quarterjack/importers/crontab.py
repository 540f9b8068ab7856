"""A crontab as schedules of a job that runs commands.

Times have cron's meaning: two restricted day fields are combined with OR, and a fixed time that a clock change skips runs once. The
environment that a crontab sets goes into each payload. The notes say what cron does around a command: mail, users, its environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quarterjack.arguments import MAX_DESCRIPTION
from quarterjack.errors import InvalidInput
from quarterjack.importers import jobs_file
from quarterjack.importers.cronforms import doubtful_user, form_of, oddities, unheaded_user
from quarterjack.importers.cronlines import (
    CrontabEntry,
    CrontabForm,
    CrontabSetting,
    Read,
    UnreadableLine,
    is_timed,
    lines_of,
)
from quarterjack.importers.programs import is_skipped_while_locked, program_of
from quarterjack.importers.report import Collector, Conversion, ImportReport, NotMapped
from quarterjack.importers.templates import refuse_template
from quarterjack.importers.text import names_a_secret, stem_of, without_secrets
from quarterjack.timing.timetables import LONGEST as LONGEST_WINDOW
from quarterjack.timing.timetables import stable

_WORDS = {"@every_minute": "* * * * *", "@every_second": "rate(1 second)"}  # FreeBSD's
_PERIODS = {"1": "@daily", "7": "@weekly", "30": "@monthly"}  # anacron's, in days
_DAYS = {"@daily": "* * *", "@weekly": "* * 0", "@monthly": "1 * *"}  # the day fields of these words
_NEVER = {"@reboot": "runs when cron starts, which is at no time; start it with the worker or the machine (systemd)"}
_SHEBANG = re.compile(
    r"#![ \t]*\S*?/?(?:env[ \t]+(?:-S[ \t]+)?)?(?P<program>(?:ba|da|k|z)?sh|python|perl|ruby|php|node)[0-9.]*\b"
)
_RANDOM = re.compile(r"([0-9]*)~([0-9]*)")  # cronie: one value of a range, drawn when cron starts
_OPEN_STEP = re.compile(r"(^|,)[0-9]+/[0-9]+")
_NOT_MAPPED = {
    **dict.fromkeys(("MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING"), "it is about mail, and none is sent"),
    **dict.fromkeys(
        ("LOGNAME", "USER"), "cron does not let a crontab set it either: it is the user that the command runs as"
    ),
}
_UTC = ("UTC", "Etc/UTC")
_OWN_DELAYS = "each fire has a delay of its own below it, the same at each computation; cron draws one for all"
_DAY = 86_400  # seconds
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))  # of the five fields


@dataclass
class _State:
    """The settings in force at a line."""

    zone: str
    environment: dict[str, str] = field(default_factory=dict)
    shell: str | None = None
    delay: int = 0  # minutes
    hours: int | None = None  # anacron's: the first hour of the day in which it starts commands
    doubt: str | None = None  # what its entries may differ in, because the form was not clear
    skips: bool = False  # an entry has ``overlap: skip``
    users: set[str] = field(default_factory=set)
    mails: bool = False
    zoned: bool = False  # whether the zone is known, by the caller or by CRON_TZ
    unzoned: int = 0  # the last line whose times have no known zone


def read_crontab(
    text: str, source: str, *, timezone: str | None = None, form: CrontabForm | None = None, job: str = "command"
) -> ImportReport:
    """Convert a crontab; ``source`` is its name or path. Raises InvalidInput with line and remedy if the text is not a crontab.

    ``timezone`` is the zone of its times (default UTC, with a remark), ``form`` its form (default: detected), and ``job`` the name of
    the job that runs the commands.
    """
    refuse_template(text, source, reader="crontab")
    asked, form = form, form or form_of(text, source)
    stem = stem_of(source, "crontab")
    state, found = _State(timezone or "UTC", zoned=timezone is not None), Collector(source)
    state.doubt = _doubt(text, source, form) if asked is None else None
    lines = list(lines_of(text, source, form=form))
    _refuse_prose(lines, text, source, form)
    names = _names([line.command for line in lines if isinstance(line, CrontabEntry)])
    for line in lines:
        if isinstance(line, CrontabSetting):
            _setting(line, state, found)
        elif isinstance(line, UnreadableLine):
            found.left(line.number, line.text, line.why)
            if line.text.startswith("!"):
                state.doubt = f"fcron's options in line {line.number} are left out"
        else:
            _entry(line, f"{stem}/{names[line.command]}", job, form, state, found)
    if not any(line.is_entry for line in found.lines):
        raise InvalidInput(source, "", "has no entry: nothing in it is due", "give a crontab: crontab -l > FILE")
    owner, remarks = f"crontab/{stem}", _remarks(state, form)
    return found.report(form.value, owner, remarks, lambda: jobs_file.for_commands(source, job))


def _refuse_prose(lines: Sequence[Read], text: str, source: str, form: CrontabForm) -> None:
    """Raise InvalidInput for a script, or for a text with more lines of something else than of a crontab. cron refuses it whole, too."""
    own = [
        (line, before)
        for before, line in zip([None, *lines], lines, strict=False)
        if not isinstance(line, CrontabSetting)
    ]
    others = [
        line for line, before in own if not is_timed(line.text, form) and not (before and before.text.endswith("\\"))
    ]
    script = _SHEBANG.match(text)
    if not others or not (script or len(others) * 2 > len(own)):
        return
    more = f", and {len(others) - 1} more lines are none" if len(others) > 1 else ""
    what = (
        f"is a line of a {script['program']} script, which is no crontab"
        if script
        else f"is no line of a crontab{more}"
    )
    shown, remedy = without_secrets(others[0].text.strip())[:60], "give the crontab alone, as crontab -l prints it"
    raise InvalidInput(f"{source}:{others[0].number}", shown, what, remedy)


def _names(commands: Sequence[str]) -> dict[str, str]:
    """The name of each command: its program and a hash of it all, so that no other line decides about it."""
    return {command: f"{program_of(command)}-{stable(command) % 16**4:04x}" for command in commands}


def _doubt(text: str, source: str, form: CrontabForm) -> str | None:
    """What the entries may differ in, because the form was detected."""
    if form is CrontabForm.USER and (word := doubtful_user(text)):
        return f"{word} is read as a command; if it is the user of each line: --system, else --user"
    if form is CrontabForm.SYSTEM and (word := unheaded_user(text, source)):
        return f"{word} is read as the user, of which no heading tells: --user if it is a command, else --system"
    return None


def _setting(line: CrontabSetting, state: _State, found: Collector) -> None:
    try:
        if line.name in _NOT_MAPPED:
            raise NotMapped(_NOT_MAPPED[line.name])
        note = _set(line.name, line.value, state)
    except NotMapped as problem:
        found.setting(line.number, line.text, Conversion.LEFT, str(problem))
    else:
        fit = Conversion.DIFFERS if note else Conversion.EXACT
        found.setting(line.number, line.text, fit, *([note] if note else []))


def _set(name: str, value: str, state: _State) -> str | None:
    """Carry out a setting. Returns what differs from cron. Raises NotMapped."""
    match name:
        case "CRON_TZ":
            state.zone, state.zoned = value, True
        case "TZ":
            state.environment[name] = value
            return (
                f"it is the commands' zone, as in Linux' cron; if it is to be that of the times too: --timezone {value}"
            )
        case "SHELL":
            state.shell = None if value == "/bin/sh" else value
        case "MAILTO":
            state.mails = state.mails or bool(value)
            if value:
                return f"nothing is mailed to {value}: to be told of failures give the schedules on_failure: (an SNS topic)"
        case "RANDOM_DELAY":
            if not value.isdecimal() or int(value) * 60 > LONGEST_WINDOW:
                raise NotMapped(f"it is not a number of minutes up to {LONGEST_WINDOW // 60}")
            state.delay = int(value)
            return _OWN_DELAYS if state.delay else None
        case "START_HOURS_RANGE":
            return _hours(value, state)
        case _:
            state.environment[name] = value
            if names_a_secret(name):
                return "it is kept in each payload as it is: let the job fetch secrets by name instead"
    return None


def _hours(value: str, state: _State) -> str:
    """Carry out anacron's START_HOURS_RANGE. Raises NotMapped."""
    first, _, last = value.partition("-")
    if not (first.isdecimal() and last.isdecimal() and int(first) < 24):
        raise NotMapped("it is not a range of hours, as 3-22")
    state.hours = int(first)
    return f"commands are due from {int(first):02}:00 on; one that is late starts after {int(last):02}:00 too"


def _entry(line: CrontabEntry, name: str, job: str, form: CrontabForm, state: _State, found: Collector) -> None:
    notes: list[str] = []
    if line.when.lower() in _NEVER:
        found.left(line.number, line.text, _NEVER[line.when.lower()])
        return
    if line.user:
        state.users.add(line.user)
    if not state.zoned:
        state.unzoned = line.number
    anacron = form is CrontabForm.ANACRON
    expression = _period(line, state, notes) if anacron else _expression(line.when, notes)
    payload = {
        "command": line.command,
        "shell": state.shell,
        "environment": dict(state.environment),
        "stdin": line.stdin,
        "user": line.user,
    }
    if line.stdin:
        notes.append("% ends the command here, the rest is its standard input; busybox and supercronic read on")
    notes += oddities(line, form)
    skips = is_skipped_while_locked(line.command)
    state.skips = state.skips or skips
    if state.doubt:
        notes.append(state.doubt)
    if len(line.description) > MAX_DESCRIPTION:
        notes.append(f"its comment has {len(line.description):,} characters, {MAX_DESCRIPTION:,} are kept")
    words: Mapping[str, Any] = {
        "job": job,
        "expression": expression,
        "timezone": state.zone,
        "rule": {**_clocks(expression, state.zone), **({"window": state.delay * 60} if state.delay else {})},
        "payload": {key: value for key, value in payload.items() if value},
        "description": line.description[:MAX_DESCRIPTION],
        **({"overlap": "skip"} if skips or line.single else {}),
        **({"catch_up": "latest", "catch_up_window": _DAY} if anacron else {}),
    }
    found.entry(line.number, line.text, name, words, notes)


def _expression(when: str, notes: list[str]) -> str:
    if when.startswith("@"):
        return _WORDS.get(when.lower(), when)
    fields = when.split(" ")
    fields[0] = fields[0].removeprefix("-")  # cronie: do not log
    for position, text in enumerate(fields):
        if _RANDOM.fullmatch(text):
            (low, high), (least, most) = text.split("~"), _RANGES[position]
            fields[position] = f"H({low or least}-{high or most})" if low or high else "H"
            notes.append(f"{text} is one value that stays, chosen by the schedule's name; cron draws it when it starts")
        if _OPEN_STEP.search(text):
            notes.append(f"{text} is read as from there to the end of the field; not every cron does")
    return " ".join(fields)


def _period(line: CrontabEntry, state: _State, notes: list[str]) -> str:
    """The expression for anacron's period in days, in its hours."""
    notes.append("anacron waits for the machine to be up; here it is due by the clock, and late by a day at the most")
    delay = int(line.delay) if line.delay.isdecimal() else 0
    expression = _PERIODS.get(line.when, line.when if line.when.startswith("@") else f"rate({line.when} days)")
    if state.hours is not None and expression in _DAYS:
        hour, minute = divmod((state.hours * 60 + delay) % 1440, 60)
        return f"{minute} {hour} {_DAYS[expression]}"
    if state.hours is not None:
        notes.append(f"it is due outside of the hours that begin at {state.hours:02}:00 as well")
    if delay:
        notes.append(f"the delay of {delay} minutes after anacron's start is left out")
    return expression


def _clocks(expression: str, zone: str) -> dict[str, str]:
    """The rule fields for the behaviour of Debian's cron when the clocks change.

    There only a star at the beginning of minute or hour makes a wildcard; here a ``/`` anywhere in them does too.
    """
    fields = expression.split(" ")
    if zone in _UTC or len(fields) != 5:
        return {}
    wild_here = re.search(r"[*/]", fields[0] + fields[1])
    wild_there = fields[0][:1] == "*" or fields[1][:1] == "*"
    return {"gap": "next_valid", "repeated": "first"} if wild_here and not wild_there else {}


def _remarks(state: _State, form: CrontabForm) -> list[str]:
    found = []
    if state.unzoned:
        where = f" up to line {state.unzoned}" if state.zoned else ""
        found.append(
            f"no time zone is known{where}: the times are read in UTC; cron reads them in its machine's: --timezone ZONE"
        )
    if state.users:
        found.append(f"commands run as {', '.join(sorted(state.users))}: start the worker as root, or take user: out")
    if state.skips:
        found.append(
            "overlap: skip is set where flock -n skips a run: without it flock would end the second run as failed"
        )
    if not state.mails:
        found.append("cron mails what a command prints; here the end of it is kept with the run, and logged")
    if form is not CrontabForm.ANACRON:
        found.append("a fire that was missed runs late, if that is within 30 minutes; cron forgets it (catch_up: none)")
    return [
        *found,
        "a command gets the worker's environment beside what the crontab sets; cron's is bare",
        "commands run where a worker process runs: start it where cron ran; for Lambda see what the job's file says",
    ]

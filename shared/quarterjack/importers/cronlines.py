"""Parser of crontab text: settings, comments and entries, exactly as cron reads them.

cron has no line continuation and no comments after a command. A ``%`` ends the command; the rest of the line is its standard input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from quarterjack.errors import InvalidInput

LONGEST = 100_000  # characters of a line: cron itself takes a thousand
_BLANKS = re.compile(r"[ \t]+")
_SETTING = re.compile(
    r"""[ \t]*(?:"(?P<double>[^"]+)"|'(?P<single>[^']+)'|(?P<plain>[A-Za-z_]\w*))[ \t]*=(?P<value>.*)"""
)
_UNTIL_PERCENT = re.compile(r"((?:\\.|[^%])*)(?:%(.*))?", re.DOTALL)  # a backslash keeps the next character
_QUOTED = re.compile(r"""(["'])(.*)\1""")
_FIELD = re.compile(r"-?[0-9*~?H][0-9A-Za-z*,/~?()#-]*|[A-Za-z]{3}([,-][A-Za-z]{3})*")
_NAMED = re.compile(r"@[A-Za-z0-9_]+")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}\$?")
_HEADING = re.compile(r"m\s+h\s+dom\s|user(-?name)?\s+command", re.IGNORECASE)
_SYSTEM_PLACES = re.compile(r"(^|/)(etc/crontab|cron\.d/[^/]+)$")
_PLACE_OF_ANACRON = re.compile(r"(^|/)anacrontab$")
_USERS_HEADING = re.compile(r"dow\s+user\s+command")
# Accounts of which no command bears the name.
_ACCOUNTS = frozenset({"root", "www-data", "nobody", "daemon", "postgres", "mysql", "apache", "nginx", "ubuntu", "git"})


class CrontabForm(Enum):
    """The fields before the command of an entry."""

    USER = "a user's crontab, without users in it"
    SYSTEM = "a system's crontab, with users"
    ANACRON = "an anacrontab"

    def count(self, line: str) -> int:
        """Number of words before the command."""
        if self is CrontabForm.ANACRON:
            return 3
        return (1 if line.startswith("@") else 5) + (self is CrontabForm.SYSTEM)


# The words after the time fields.
_REST = {
    CrontabForm.USER: "command",
    CrontabForm.SYSTEM: "user and command",
    CrontabForm.ANACRON: "delay, name and command",
}


@dataclass(frozen=True)
class CrontabSetting:
    """``NAME = value``, valid for the following lines."""

    number: int
    text: str
    name: str
    value: str


@dataclass(frozen=True)
class CrontabEntry:
    """A line that runs a command."""

    number: int
    text: str
    when: str  # five fields, or a word with @
    user: str | None  # of a system's crontab
    command: str  # for the shell, % resolved
    stdin: str
    description: str = ""  # the comment right above it


@dataclass(frozen=True)
class UnreadableLine:
    """A line that cron refuses as well."""

    number: int
    text: str
    why: str


Read = CrontabSetting | CrontabEntry | UnreadableLine


def form_of(text: str, source: str) -> CrontabForm:
    """The form of a crontab, by its path, else by its content."""
    if _SYSTEM_PLACES.search(source):
        return CrontabForm.SYSTEM
    if _PLACE_OF_ANACRON.search(source):
        return CrontabForm.ANACRON
    sixth = []
    for raw in text.split("\n"):
        line = raw.strip(" \t\r")
        if line.startswith("#"):
            if _USERS_HEADING.search(line):
                return CrontabForm.SYSTEM
        elif line and not _SETTING.fullmatch(line):
            count = CrontabForm.SYSTEM.count(line)
            words = _words(line, count)
            sixth.append(words[-2] if len(words) > count else "")
    accounts = any(name in _ACCOUNTS for name in sixth) and all(_USER.fullmatch(name) for name in sixth)
    return CrontabForm.SYSTEM if accounts else CrontabForm.USER


def lines_of(text: str, source: str, *, form: CrontabForm) -> Iterator[Read]:
    """The lines, without comments and empty ones. Raises InvalidInput for one that no crontab has."""
    comment: list[str] = []  # lines of the comment that may belong to the next entry
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.removesuffix("\r")
        if len(line) > LONGEST:
            remedy = "put the command into a script and call that"
            raise InvalidInput(f"{source}:{number}", line, f"has {len(line):,} characters", remedy)
        stripped = line.strip(" \t")
        if stripped and not stripped.startswith("#"):
            yield _read(number, line, " ".join(comment), form)
            comment = []
            continue
        words = stripped.lstrip("#").strip()
        if (
            not words or _HEADING.search(words) or _looks_like_an_entry(words)
        ):  # ends it, as an entry commented out does
            comment = []
        elif re.search(r"[^\W\d_]{2}", words):
            comment.append(words)


def _looks_like_an_entry(text: str) -> bool:
    words = _words(text, 5)
    if len(words) == 6 and all(_FIELD.fullmatch(word) for word in words[:5]):
        return any(not word.isalpha() for word in words[:5])
    return len(words) > 1 and _NAMED.fullmatch(words[0]) is not None


def _read(number: int, text: str, description: str, form: CrontabForm) -> Read:
    setting = _SETTING.fullmatch(text)
    if setting:
        value = setting["value"].strip(" \t")
        quoted = _QUOTED.fullmatch(value)
        name = setting["plain"] or setting["double"] or setting["single"]
        return CrontabSetting(number, text, name, quoted[2] if quoted else value)
    line = text.lstrip(" \t")
    count = form.count(line)
    words = _words(line, count)
    if len(words) <= count or not words[-1]:
        when = "an @ word" if line.startswith("@") else "a period" if form is CrontabForm.ANACRON else "five fields"
        return UnreadableLine(number, text, f"is neither NAME=value nor {when} and {_REST[form]}")
    *before, rest = words
    command, stdin = percent(rest) if form is not CrontabForm.ANACRON else (rest, "")
    if form is CrontabForm.USER:
        return CrontabEntry(number, text, " ".join(before), None, command, stdin, description)
    if form is CrontabForm.ANACRON:
        return CrontabEntry(number, text, before[0], None, command, stdin, description or before[2])
    times, user = before[:-1], before[-1]
    if not _USER.fullmatch(user):
        return UnreadableLine(number, text, f"names {user!r} as the user; --user if this crontab has no users in it")
    return CrontabEntry(number, text, " ".join(times), user, command, stdin, description)


def percent(text: str) -> tuple[str, str]:
    r"""A command and its standard input, as cron makes them of a line: ``%`` ends a line, ``\%`` is one.

    >>> percent("date +\\%F%one%two")
    ('date +%F', 'one\ntwo\n')
    """
    found = _UNTIL_PERCENT.match(text)
    assert found is not None, text
    command = re.sub(r"\\(.)", lambda pair: "%" if pair[1] == "%" else pair[0], found[1])
    if found[2] is None:
        return command, ""
    stdin = re.sub(r"\\?%", lambda sign: sign[0][1:] or "\n", found[2])
    return command, stdin if stdin.endswith("\n") else f"{stdin}\n"


def _words(line: str, count: int) -> list[str]:
    return _BLANKS.split(line.lstrip(" \t"), maxsplit=count)

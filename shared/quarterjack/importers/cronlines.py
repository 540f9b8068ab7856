"""Parser of crontab text: settings, comments and entries, exactly as cron reads them.

cron has no line continuation and no comments after a command. A ``%`` ends the command; the rest of the line is its standard input.
anacron continues a line after a backslash, with a blank.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from quarterjack.errors import InvalidInput
from quarterjack.importers.programs import starts_another
from quarterjack.importers.text import without_secrets

LONGEST = 100_000  # characters of a line: cron itself takes a thousand
_BLANKS = re.compile(r"[ \t]+")
SETTING = re.compile(
    r"""[ \t]*(?:"(?P<double>[^"]+)"|'(?P<single>[^']+)'|(?P<plain>[A-Za-z_]\w*))[ \t]*=(?P<value>.*)"""
)
_UNTIL_PERCENT = re.compile(r"((?:\\.|[^%])*)(?:%(.*))?", re.DOTALL)  # a backslash keeps the next character
_QUOTED = re.compile(r"""(["'])(.*)\1""")
FIELD = re.compile(r"-?[0-9*~?H][0-9A-Za-z*,/~?()#-]*|[A-Za-z]{3}([,-][A-Za-z]{3})*")
_NAMED = re.compile(r"@[A-Za-z0-9_]+")
USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}\$?")
COMMANDS = frozenset(  # whose names no account has, and whose first argument is often a path
    {"awk", "cat", "chmod", "chown", "cp", "curl", "date", "du", "echo", "find", "ls", "mkdir", "mv", "printf", "rm"}
    | {"rsync", "sed", "tar", "touch", "wget", "xargs"}
)
FLAGS = re.compile(r"-[nqs]+")  # of BSD and cronie, before a command: mail failures alone, no log, skip while it runs
_FLAGGED = re.compile(rf"((?:{FLAGS.pattern}[ \t]+)*)(.*)", re.DOTALL)
_HEADING = re.compile(  # of the columns, or for another program
    r"m\s+h\s+dom\s|user(-?name)?\s+command|^\W*min(ute)?s?\W+h(ou)?rs?\b|\bperiod\b.{1,40}\bdelay\b.{1,40}\b(ident|job-?id)|^ident\s"
    r"|\bvim?:\s|\b(ana)?cron(tab)?\([158]\)|^(\((days?|min(ute)?s?|h(ou)?rs?)\)\s*)+$",
    re.IGNORECASE,
)
_COLUMN = re.compile(  # what a column is called, in a few languages
    r"m(i?n|m|ins?|inutes?|inuten|inuto|mi)?|h(h|rs?|ours?|eure|ora)?|d(d|m|om|w|ow|ays?|ayof(month|week)|ia|ía)?"
    r"|m(day|onthday|on|o|onths?|oy|onat|ois|es)|w(d|day|eekdays?|eek)?|std|stunde|tag|wochentag|jour|semana"
    r"|who|user|cmd|command|分钟?|時|时|小时|日|天|月|周|週|星期|曜日"
)
_LEGEND = re.compile(  # minute (0 - 59)
    r"^\W*0\W{1,3}59\b|^\W*(min(ute)?s?|h(ou)?rs?|dom|dow|mon(th)?|weekday|day\s+of\s+(the\s+)?(month|week))\W+[01]\W+[0-9]",
    re.IGNORECASE,
)
_DAY_NAMES = r"(?:SUN|MON|TUE|WED|THU|FRI|SAT)"
_MORE_FIELDS = re.compile(rf"[0-9*?][0-9*?,/LW#-]*|{_DAY_NAMES}(?:[,-]{_DAY_NAMES})*(?:#[1-5]|L)?", re.IGNORECASE)
_DECORATION = re.compile(r"^[-=*#~_+.]{3,}|[-=*#~_+]{3,}$|^[|\u250c\u2502\u2514]")
_BOX = re.compile(r"\s#+$")  # the right side of a box around a comment
_MORE = "supercronic has seconds first and the year last; declare it: expression: '*/5 * * * * *' has seconds, cron(…) a year"
_OF_WEB2PY = re.compile(r"\*{1,2}[A-Za-z_]\w*/\S")
_WEB2PY = (
    "is a line of web2py, whose cron runs scripts and controllers of its own after a star: declare it, with the command"
    " python web2py.py -S APP -M -R SCRIPT"
)
_OF_ANACRON = re.compile(r"[0-9]+[ \t]+[0-9]+[ \t]+[A-Za-z][\w.:-]*[ \t]+\S")  # the beginning of its line
_VARIABLE = r"\$\{?(?P<name>[A-Za-z_]\w*)"
_VARIED = re.compile(rf"[0-9*,/-]*{_VARIABLE}\}}?[0-9*,/-]*")  # a field
_VARIED_TIMES = re.compile(rf"""["']?{_VARIABLE}(?:[:?=+-][^}}]*)?\}}?["']?[ \t]+\S""")  # before a command
_OF_FCRON = re.compile(r"[&!]|%[a-z]+\b|@(?:[a-z]+\(|[ \t]*[0-9])")
_DECLARE = "is a line of fcron: declare it, @ 30 as rate(30 minutes), & with five fields without the & and its options"


class CrontabForm(Enum):
    """The fields before the command of an entry."""

    USER = "a user's crontab, without users in it"
    SYSTEM = "a system's crontab, with users"
    ANACRON = "an anacrontab"

    def count(self, line: str) -> int:
        """Number of words before the command."""
        if self is CrontabForm.ANACRON:
            return 3
        times = 2 if line.startswith("@every ") else 1 if line.startswith("@") else 5
        return times + (self is CrontabForm.SYSTEM)


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
    delay: str = "0"  # of an anacrontab: minutes after anacron's start
    single: bool = False  # BSD's -s: a fire is skipped while the command runs


@dataclass(frozen=True)
class UnreadableLine:
    """A line that cron refuses as well."""

    number: int
    text: str
    why: str


Read = CrontabSetting | CrontabEntry | UnreadableLine


def lines_of(text: str, source: str, *, form: CrontabForm) -> Iterator[Read]:
    """The lines, without comments and empty ones. Raises InvalidInput for one that no crontab has."""
    comment = list[str]()  # its lines, which may belong to the next entry
    continued = False  # the line before goes on
    for number, line in _numbered(text, form):
        if len(line) > LONGEST:
            remedy = "put the command into a script and call that"
            raise InvalidInput(f"{source}:{number}", without_secrets(line), f"has {len(line):,} characters", remedy)
        stripped = line.strip(" \t")
        if stripped and not stripped.startswith("#"):
            names = [] if continued else _variables_of(stripped)
            yield (
                UnreadableLine(number, line, _replace(names)) if names else _read(number, line, " ".join(comment), form)
            )
            comment, continued = [], line.endswith("\\")
            continue
        words = stripped.lstrip("#").strip()
        if (
            not words or _looks_like_an_entry(words, form) or _is_no_text(words)
        ):  # ends it, as an entry commented out does
            comment = []
        elif re.search(r"[^\W\d_]{2}", words):
            comment.append(_BOX.sub("", words))


def _numbered(text: str, form: CrontabForm) -> Iterator[tuple[int, str]]:
    """The lines as cron or anacron takes them, each with the number of its first one."""
    lines = enumerate((raw.removesuffix("\r") for raw in text.split("\n")), start=1)
    for number, line in lines:
        parts = [line]
        while form is CrontabForm.ANACRON and parts[-1].endswith("\\"):
            parts[-1:] = [parts[-1][:-1], next(lines, (0, ""))[1]]
        yield number, " ".join(parts)


def is_timed(text: str, form: CrontabForm) -> bool:
    """Whether a line begins as an entry does, with times or a period; an entry may be wrong for all that."""
    line = text.lstrip(" \t")
    if line.startswith("@") or _OF_FCRON.match(line) or _variables_of(line):
        return True
    if form is CrontabForm.ANACRON:
        return line[:1].isdecimal()
    words = words_of(line, 5)[:5]
    return len(words) == 5 and all(FIELD.fullmatch(word) for word in words)


def _is_no_text(words: str) -> bool:
    """Whether it is about the columns, or a title between rulers: ``=== backups ===``."""
    ruled = re.search(r"[^\W\d_]{2}", words) is not None and _DECORATION.search(words) is not None
    names = [word for word in re.findall(r"[^\W\d_]+", words.lower()) if word not in ("of", "the")][:5]
    columns = len(names) == 5 and all(map(_COLUMN.fullmatch, names))
    return ruled or columns or _HEADING.search(words) is not None or _LEGEND.search(words) is not None


def _variables_of(line: str) -> list[str]:
    """The variables in place of the times of a line, or of fields of them."""
    words = words_of(line, 5)[:5]
    varied = [found for word in words if (found := _VARIED.fullmatch(word))]
    if varied and len(words) == 5 and all(FIELD.fullmatch(word) or _VARIED.fullmatch(word) for word in words):
        return [found["name"] for found in varied]
    whole = _VARIED_TIMES.match(line)
    return [whole["name"]] if whole else []


def _replace(names: Sequence[str]) -> str:
    listed = " ".join(f"${name}" for name in names)
    return f"has a variable in place of its times: export it, then envsubst '{listed}' < FILE | quarterjack import crontab -"


def _looks_like_an_entry(text: str, form: CrontabForm) -> bool:
    if form is CrontabForm.ANACRON and _OF_ANACRON.match(text):
        return True
    words = words_of(text, 5)
    if len(words) == 6 and all(FIELD.fullmatch(word) for word in words[:5]):
        return any(not word.isalpha() for word in words[:5])
    return len(words) > 1 and _NAMED.fullmatch(words[0]) is not None


def _read(number: int, text: str, description: str, form: CrontabForm) -> Read:
    setting = SETTING.fullmatch(text)
    if setting:
        value = setting["value"].strip(" \t")
        quoted = _QUOTED.fullmatch(value)
        name = setting["plain"] or setting["double"] or setting["single"]
        return CrontabSetting(number, text, name, quoted[2] if quoted else value)
    return _entry_of(number, text, description, form)


def _entry_of(number: int, text: str, description: str, form: CrontabForm) -> CrontabEntry | UnreadableLine:
    line = text.lstrip(" \t")
    words = words_of(line, form.count(line))
    if why := _why_unreadable(line, words, form):
        return UnreadableLine(number, text, why)
    *before, rest = words
    if form is CrontabForm.ANACRON:
        return CrontabEntry(number, text, before[0], None, rest, "", description or before[2], before[1])
    flags, rest = _without_flags(rest)
    command, stdin = percent(rest)
    user = before.pop() if form is CrontabForm.SYSTEM else None
    return CrontabEntry(number, text, " ".join(before), user, command, stdin, description, single="s" in flags)


def _why_unreadable(line: str, words: Sequence[str], form: CrontabForm) -> str | None:
    """Why a line is no entry, by its words before the command and the rest; None: it is one."""
    if _OF_FCRON.match(line):
        return _DECLARE
    if len(words) <= form.count(line) or not words[-1]:
        when = "an @ word" if line.startswith("@") else "a period" if form is CrontabForm.ANACRON else "five fields"
        users = form is CrontabForm.SYSTEM and len(words) == form.count(line)
        remedy = "; --user if this crontab has no users in it" if users else ""
        return f"is neither NAME=value nor {when} and {_REST[form]}{remedy}"
    if form is CrontabForm.ANACRON:
        known = words[0].isdecimal() or words[0].startswith("@")
        return None if known else f"the period {words[0]!r} is neither a number of days nor @daily, @weekly or @monthly"
    if not line.startswith("@") and (more := _MORE_FIELDS.fullmatch(_BLANKS.split(words[5], maxsplit=1)[0])):
        return f"has more than five fields: {more[0]!r} is no command; {_MORE}"
    why = _why_no_user(words[-2]) if form is CrontabForm.SYSTEM else None
    return why or _why_no_command(words[-1])


def _why_no_command(rest: str) -> str | None:
    """Why the rest of a line begins with an option that no cron has, or has nothing after those."""
    _, command = _without_flags(rest)
    if begins_for_web2py(command):
        return _WEB2PY
    if command and command[0] != "-":
        return None
    first = (command or rest).split()[0]
    return f"has {first!r} where its command begins; BSD's cron takes -n, -q and -s there, and a command after them"


def begins_for_web2py(text: str) -> bool:
    """Whether a text begins as a command in a crontab of web2py: ``*applications/shop/cron/expire.py``."""
    return _OF_WEB2PY.match(text) is not None


def _without_flags(rest: str) -> tuple[str, str]:
    found = _FLAGGED.fullmatch(rest)
    assert found is not None, rest
    return found[1], found[2]


def _why_no_user(word: str) -> str | None:
    if not USER.fullmatch(word):
        return f"names {word!r} as the user; --user if this crontab has no users in it"
    if (word in COMMANDS or starts_another(word)) and word != "node":  # the user of an image of Docker
        return f"names no user, {word!r} is a command; --user if no line has a user"
    return None


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


def words_of(line: str, count: int) -> list[str]:
    return _BLANKS.split(line.lstrip(" \t"), maxsplit=count)

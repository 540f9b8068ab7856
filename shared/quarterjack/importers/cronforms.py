"""The form of a crontab: whether a user stands before each command, by its place, its headings and its words.

It tells as well of placeholders and backslashes in a command.
"""

from __future__ import annotations

import re

from quarterjack.importers.cronlines import (
    COMMANDS,
    FIELD,
    FLAGS,
    SETTING,
    USER,
    CrontabEntry,
    CrontabForm,
    begins_for_web2py,
    words_of,
)
from quarterjack.importers.programs import starts_another

_HOURS = "START_HOURS_RANGE"  # a setting of anacron alone
_SYSTEM_PLACES = re.compile(r"(^|/)(etc/crontab|([^/]+\.)?cron\.d|cron\.d/[^/]+)$")  # debian/NAME.cron.d, too
_PLACE_OF_ANACRON = re.compile(r"(^|[/._-])anacrontab$")  # a user's, too: .anacrontab
_OF_ANACRON = re.compile(  # period, delay, a name, which is no field of a time, and the command
    r"(?:[0-9]+|@(?:daily|weekly|monthly|yearly|annually))[ \t]+[0-9]+[ \t]+(?=[A-Za-z0-9_.:-]{3})[A-Za-z][\w.:-]*[ \t]+\S.*"
)
_CONTINUED = re.compile(r"\\\r?\n")  # of anacron
_USERS_HEADING = re.compile(r"dow\s+user\s+command")
_USERS_LEGEND = re.compile(r"^#(?:\s*\*){5}\s+user(?:-?name)?\s+command", re.MULTILINE)  # copied into any crontab
_WHO_HEADING = re.compile(r"^#.*\s(who|user(-?name)?)\s+(command|cmd)\b", re.MULTILINE | re.IGNORECASE)
_BARE_HEADING = re.compile(r"^#.*\b(dow|wday|weekday|week)\s+(command|cmd)\b", re.MULTILINE | re.IGNORECASE)
# Accounts of which no command bears the name. There are commands named git, mysql, nginx, postgres, daemon.
_ACCOUNTS = frozenset({"root", "www-data", "nobody", "apache", "ubuntu", "ec2-user", "nagios", "munin", "smmsp"})
_SERVICES = frozenset(  # accounts that are commands as well, and those of Debian whose names a script may have
    {"git", "mysql", "nginx", "postgres", "daemon"}
    | {"backup", "ftp", "games", "irc", "list", "news", "operator", "proxy", "uucp"}
)
_SUBCOMMANDS = frozenset({"git", "mysql"})  # of these, that take a bare word: git pull, mysql shop
_PLACEHOLDER = re.compile(  # of a sample or a manual, in a path
    r"@[A-Z][A-Z0-9_]+@(?=/)|(?<=/)(?:\{[A-Za-z_]\w*\}|<[A-Za-z_][\w -]*>)(?=[/\s]|$)"
    r"|(?<![\w$@])\{[A-Za-z_]\w*\}(?=/)|(?<!\S)\[[A-Za-z_]{4,}\](?=[\w/])|(?<![\w.-])/path/to(?=/)"
)
_PROGRAM = re.compile(r"(/|\./|cd\b|test\b|\[)")  # the beginning of a command, and hardly that of an argument
_EXECUTABLE = re.compile(r"/(?:[^/]+/)*s?bin/[^/]|\S*\.(?:sh|bash|py|pl|php|rb)$")
_BEGINNINGS = frozenset(
    {"test", "[", "[[", "cd", "if", "sleep", "nice", "ionice", "env", "sudo", "flock", "timeout", "nohup", "setsid"}
    | {"sh", "bash", "dash", "python", "python3", "php", "perl", "ruby", "node"}
)


def form_of(text: str, source: str) -> CrontabForm:
    """The form of a crontab, by its path, else by what cannot be a command."""
    if _SYSTEM_PLACES.search(source):
        return CrontabForm.SYSTEM
    if _PLACE_OF_ANACRON.search(source):
        return CrontabForm.ANACRON
    for raw in text.split("\n"):
        line = raw.strip(" \t\r")
        if line.startswith("#") and _USERS_HEADING.search(line):
            return CrontabForm.SYSTEM
        setting = SETTING.fullmatch(line)
        if setting and setting["plain"] == _HOURS:
            return CrontabForm.ANACRON
    entries = [
        line
        for raw in _CONTINUED.sub(" ", text).split("\n")
        if (line := raw.strip(" \t\r")) and line[0] != "#" and not SETTING.fullmatch(line)
    ]
    if entries and all(map(_OF_ANACRON.fullmatch, entries)):
        return CrontabForm.ANACRON
    pairs = _first_words(text)
    users = all(
        USER.fullmatch(first) and second and (second[0] != "-" or FLAGS.fullmatch(second)) for first, second in pairs
    )
    named = any(first in _ACCOUNTS for first, _ in pairs)
    return CrontabForm.SYSTEM if users and named else CrontabForm.USER


def oddities(entry: CrontabEntry, form: CrontabForm) -> list[str]:
    """Notes on a placeholder in a command, and on what cron or anacron makes of its backslashes, where they stay as they are here."""
    later = _PLACEHOLDER.search(entry.command)
    return [
        *([f"{later[0]} looks like a placeholder that is still to be replaced"] if later else []),
        *_backslashes(entry, form),
    ]


def _backslashes(entry: CrontabEntry, form: CrontabForm) -> list[str]:
    command = entry.command
    if form is CrontabForm.ANACRON:
        return ["a backslash in the command stays; anacron takes each one out"] if "\\" in command else []
    twice = r"\\ in the command stays, as in cronie; Vixie's and BSD's cron make one backslash of it"
    last = "cron does not continue a line after a backslash: the command ends here"
    return [twice] * ("\\\\" in command) + [last] * (command.endswith("\\") and not entry.stdin)


def doubtful_user(text: str) -> str | None:
    """A word before a command of a crontab that may be a user as well; None: there is none.

    The same word stands in every line, or what follows each one can hardly be its argument, or a legend tells of users.
    """
    pairs = _first_words(text)
    if not pairs or not all(_may_be_a_user(first) for first, _ in pairs):
        return None
    word, seconds = pairs[0][0], [second for _, second in pairs]
    if _USERS_LEGEND.search(text) or all(_begins_a_command(second, first) for first, second in pairs):
        return word
    if any(first != word for first, _ in pairs):
        return None
    if len(pairs) > 1 and any(_begins_a_command(second, first) for first, second in pairs):
        return word
    bare = word in _SERVICES - _SUBCOMMANDS and all(re.match(r"\w", second) for second in seconds)
    several = (len(pairs) > 1 or word in _SERVICES) and all(_PROGRAM.match(second) for second in seconds)
    return word if bare or several else None


def unheaded_user(text: str, source: str) -> str | None:
    """The first user of a crontab whose place tells of users, and whose heading does not; None: there is no such doubt.

    A file ``etc/crontab`` outside of /etc is of a repository or an image, and often a user's.
    """
    users = [first for first, _ in _first_words(text)]
    if not users or not _ACCOUNTS.isdisjoint(users):
        return None
    copied = source.endswith("etc/crontab") and not source.startswith("/etc/")
    headed = _USERS_HEADING.search(text) or _USERS_LEGEND.search(text) or _WHO_HEADING.search(text)
    return users[0] if _BARE_HEADING.search(text) or (copied and not headed) else None


def _may_be_a_user(word: str) -> bool:
    known = word in _SERVICES or not (word in COMMANDS or starts_another(word))
    return known and USER.fullmatch(word) is not None


def _begins_a_command(second: str, word: str) -> bool:
    """Whether the second word would hardly be the argument of the first: ``app ( cd …``, ``radio nice …``, ``news /usr/bin/expire``."""
    own = second.rpartition("/")[2].startswith(word)
    return (
        own
        or second[:1] in ("(", "{")
        or begins_for_web2py(second)
        or second in _BEGINNINGS
        or _EXECUTABLE.match(second) is not None
    )


def _first_words(text: str) -> list[tuple[str, str]]:
    """The first two words after the times of each entry."""
    found = []
    for raw in text.split("\n"):
        line = raw.strip(" \t\r")
        if line and not line.startswith("#") and not SETTING.fullmatch(line):
            count = CrontabForm.SYSTEM.count(line)
            words = words_of(line, count)
            if not line.startswith("@") and not all(FIELD.fullmatch(word) for word in words[:5]):
                continue  # no entry: the rest of a line that somebody has split, for one
            rest = words[count].split() if len(words) > count else []
            found.append((words[count - 1], rest[0]) if rest else ("", ""))
    return found

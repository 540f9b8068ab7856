"""Names for imported schedules without a valid name: readable, unique, and equal at every import."""

from __future__ import annotations

import re

STANDARD_INPUT = "standard input"  # name of the source that has none
_LONGEST = 180  # characters: room for what makes a name unique
_WORDS = 100  # of a command, in which its program is looked for
_OTHERS = re.compile(r"[^A-Za-z0-9._:@/-]+")
_SUBSTITUTION = re.compile(r"\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`")  # $(…), up to two deep
_PIECES = re.compile(r"&&|\|\||[;|&(){}\n]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=\S*")
_SUFFIX = re.compile(r"(?<=.)\.(sh|bash|py|pl|php|rb|js|jar|cgi|exe)$")
_ENDING = re.compile(r"(?<=.)\.(txt|cron|crontab|ya?ml|json)$", re.IGNORECASE)
_KEYWORDS = frozenset({"if", "then", "else", "elif", "fi", "do", "done", "for", "while", "case", "esac", "!", "in"})
_GUARDS = frozenset(
    {"test", "[", "[[", "cd", "command", "sleep", "export", "set", "umask", "ulimit", "true", ":", ".", "source"}
    | {"exit", "which", "type", "unset", "trap", "mkdir", "read"}
)
_WRAPPERS = frozenset(
    {"exec", "nice", "ionice", "sudo", "nohup", "time", "env", "setsid", "chronic", "chrt", "cronic", "systemd-cat"}
)
_INTERPRETERS = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "python", "python2", "python3", "perl", "php", "ruby", "node", "java"}
    | {"run-parts", "invoke-rc.d", "service", "Rscript", "lua"}
)


def stem_of(source: str, default: str) -> str:
    """A file's name without folder and ending, as a name; ``default`` for what came from standard input."""
    if source == STANDARD_INPUT:
        return default
    name = source.replace("\\", "/").rpartition("/")[2]
    return slug(_ENDING.sub("", name))


def slug(text: str) -> str:
    """A text as a name: characters that a name may not contain become hyphens."""
    return _OTHERS.sub("-", text).strip("-/")[:_LONGEST].strip("-/") or "schedule"


class UniqueNames:
    """The names that are in use."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """The name, or the first of name-2, name-3 … that is free."""
        found = name
        while found in self._counts:
            self._counts[name] += 1
            found = f"{name}-{self._counts[name]}"
        self._counts[found] = 1
        return found


def program_of(command: str) -> str:
    """The main program of a shell line: the first one that is not a test or a wrapper.

    >>> program_of("test -x /usr/bin/certbot && /usr/bin/certbot -q renew")
    'certbot'
    >>> program_of("cd /srv/app && ./manage.py clearsessions")
    'manage'
    """
    for piece in _PIECES.split(_SUBSTITUTION.sub(" ", command)):
        found = _program(piece.split()[:_WORDS])
        if found:
            return found
    return "command"


def _program(words: list[str]) -> str | None:
    while words and (words[0] in _KEYWORDS or _ASSIGNMENT.fullmatch(words[0]) or _base(words[0]) in _WRAPPERS):
        first = words.pop(0)
        while _base(first) in _WRAPPERS and words and re.fullmatch(r"-.*|[0-9]+", words[0]):
            words.pop(0)  # its options
    if not words or _base(words[0]) in _GUARDS or not re.search(r"\w", words[0]):
        return None
    name = _base(words[0])
    return _script(words[1:]) if name in _INTERPRETERS else slug(_SUFFIX.sub("", name))


def _script(words: list[str]) -> str | None:
    """What an interpreter runs; None for a text on its command line."""
    for number, word in enumerate(words):
        if word in ("-e", "-c", "-r"):
            return None
        if word == "-m":
            return slug("".join(words[number + 1 : number + 2]))
        if not word.startswith("-"):
            return slug(_SUFFIX.sub("", _base(word)))
    return None


def _base(word: str) -> str:
    return word.strip("'\"").rstrip("/").rpartition("/")[2]

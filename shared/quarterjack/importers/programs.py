"""Programs of a command line: the one that its schedule is named after, and those that start another one.

Code on a command line, as in ``python3 -c '…'``, is named for what it is about.
"""

from __future__ import annotations

import builtins
import itertools
import re
import sys
from collections.abc import Collection

from quarterjack.importers.text import slug

_WORDS = 100  # of a command, in which its program is looked for
_SUBSTITUTION = re.compile(r"\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`")  # $(…), up to two deep
_OPEN = re.compile(r"\$\(.*|`.*", re.DOTALL)  # a substitution that a % has cut off
_PIECES = re.compile(r"&&|\|\||[;|(){}\n]|(?<![<>])&(?!>)")  # & is also a part of 2>&1 and &>
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=\S*")
_QUOTED_VALUE = re.compile(r"""((?:^|(?<=[\s;&|(]))[A-Za-z_]\w*=)(?:"(?:\\.|[^"\\])*"|'[^']*')""")  # of an assignment
_SUFFIX = re.compile(r"(?<=.)\.(sh|bash|py|pl|php|rb|js|jar|cgi|exe)$")
_KEYWORDS = frozenset({"if", "then", "else", "elif", "fi", "do", "done", "for", "while", "case", "esac", "!", "in"})
_HEADS = frozenset({"for", "case", "select"})  # keywords before a name or a value
_GUARDS = frozenset(
    {"test", "[", "[[", "cd", "command", "sleep", "export", "set", "umask", "ulimit", "true", ":", ".", "source"}
    | {"exit", "which", "type", "unset", "trap", "mkdir", "read", "module"}
)
# Programs that run another one: their options that have a value, and how many words stand before the program.
_WRAPPERS = {
    **dict.fromkeys(("nohup", "setsid", "chronic", "cronic"), ("", 0)),
    "exec": ("a", 0),
    "time": ("fo", 0),
    "chpst": ("/CLUbcdeflmnopu", 0),
    **dict.fromkeys(("nice", "ionice"), ("nNc", 0)),
    "envdir": ("", 1),
    "systemd-cat": ("tp", 0),
    "chrt": ("", 0),
    "env": ("uC", 0),
    "sudo": ("ugpCThU", 0),
    "doas": ("uC", 0),
    "timeout": ("ks", 1),
    "run-one": ("", 0),
    **dict.fromkeys(("su-exec", "gosu", "setuidgid", "s6-setuidgid"), ("", 1)),
    "flock": ("wE", 1),
    "runuser": ("ugGs", 0),
    "su": ("gGsw", 1),
}
_LONG_VALUED = frozenset(  # options of programs that run another one, with a word of its own for their value
    {
        "--adjustment",
        "--chdir",
        "--class",
        "--classdata",
        "--conflict-exit-code",
        "--directory",
        "--env-file",
        "--extra",
    }
    | {"--group", "--identifier", "--kill-after", "--package", "--priority", "--project", "--python", "--shell"}
    | {"--signal", "--timeout", "--unset", "--user", "--wait", "--with"}
)
_RUNNERS = {"bundle": "exec", **dict.fromkeys(("poetry", "pipenv", "uv", "pdm", "rye"), "run")}  # and their word for it
_COMMAND_OPTION = re.compile(r"-[a-z]*c|--command")  # of su, runuser and flock
_JOINED = re.compile(r"(?<=[A-Za-z_'\"])(?=[<>])")  # program>/dev/null
_REDIRECTION = re.compile(r"[0-9&]*[<>]")
_VARIABLE = re.compile(r"\$[A-Za-z_]\w*")
_BRACED = re.compile(r"\$\{[#!]?([A-Za-z_]\w*)[^{}]*\}")  # ${NAME:-/opt/shop} as well
_PLACEHOLDER = re.compile(r"(?<![\w$@])\{(\w+)\}(?=/)")  # {APP}/run.sh of a sample
_DEEPEST = 3  # substitutions and variables in one another that are read
_SKIPPING = re.compile(r"(?:^|[\s/;&|(])flock\s+(?:-\S+\s+)*?(?:-[a-z]*n[a-z]*|--nb|--nonblock(?:ing)?)\s")
_INTERPRETERS = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "python", "python2", "python3", "perl", "php", "ruby", "node", "java"}
    | {"run-parts", "invoke-rc.d", "service", "Rscript", "lua"}
)
_VALUED: dict[str, Collection[str]] = {  # the options of an interpreter that are followed by a value
    **dict.fromkeys(
        ("sh", "bash", "dash", "zsh", "ksh"), frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
    ),
    "python": {"-W", "-X", "--check-hash-based-pycs"},
    "php": {"-c", "-d", "-z"},
    "perl": {"-I"},
    "ruby": {"-C", "-E", "-I", "-r"},
    "node": {"-C", "-r", "--conditions", "--env-file", "--import", "--loader", "--require"},
    "java": {
        "-cp",
        "-classpath",
        "--class-path",
        "-p",
        "--module-path",
        "--add-exports",
        "--add-modules",
        "--add-opens",
    },
    "run-parts": {"-a", "-u", "--arg", "--regex", "--umask"},
    "lua": {"-l"},
}
_CODE = re.compile(  # with the option that is each one's own: -r has a module behind it in ruby and node
    r"""(?P<before>^|(?<!\s-s)(?<!\s--shell)[\s;&|(])(?:[\w./-]*/)?"""  # su -s /bin/sh
    r"""(?:(?P<shell>sh|bash|dash|zsh|ksh)|(?P<python>python)[0-9.]*|(?P<php>php)[0-9.]*|(?P<other>perl|ruby|node)[0-9.]*)"""
    r"""(?:\s+-[A-Za-z]+)*?\s+-[a-z]*(?(shell)c|(?(python)c|(?(php)r|e)))\s+"""
    r"""(?:'(?P<single>[^']*)'|"(?P<double>(?:\\.|[^"\\])*)"|(?P<bare>[^\s'"]+))"""
)
_LETTERS = {**dict.fromkeys(("sh", "bash", "dash", "zsh", "ksh", "python"), "c"), "php": "r"}  # others: e
_TEXTS = re.compile(r"""'[^']*'|"[^"]*\"""")
_CALL = re.compile(r"(?<![\w.)\]])([A-Za-z_]\w*(?:\.\w+)*)\s*\(")
_IMPORTED = re.compile(r"\b(?:import|from)\s+([A-Za-z_][\w.]*)")
_BUILTIN = frozenset(dir(builtins))


def program_of(command: str) -> str:
    """The main program of a shell line: the first one that is not a test or a wrapper. Code on it is named for what it calls.

    >>> program_of("test -x /usr/bin/certbot && /usr/bin/certbot -q renew")
    'certbot'
    >>> program_of("cd /srv/app && ./manage.py clearsessions")
    'manage'
    >>> program_of("python3 -c 'from shop.tasks import purge; purge(days=7)'")
    'purge'
    """
    pieces = _PIECES.split(_JOINED.sub(" ", _without_values(_replaced(command))))
    found = next(filter(None, (_program(piece.split()[:_WORDS]) for piece in pieces)), None)
    return found or _language_of(command) or "command"


def is_skipped_while_locked(command: str) -> bool:
    """Whether ``flock -n`` ends a command at once while an earlier run of it has the lock."""
    return _SKIPPING.search(command) is not None


def starts_another(word: str) -> bool:
    """Whether a word is a shell's own, or a program that runs another one: ``cd``, ``source``, ``nice``, ``php8.2``."""
    return word in _KEYWORDS | _GUARDS | _WRAPPERS.keys() or _unversioned(word) in _INTERPRETERS


def _without_values(command: str) -> str:
    """A command without its substitutions, the values of its assignments, and the defaults of its variables."""
    command = _PLACEHOLDER.sub(r"$\1", command)
    for _ in range(_DEEPEST):
        command = _BRACED.sub(r"$\1", _SUBSTITUTION.sub(" ", command))
    return _QUOTED_VALUE.sub(r"\1", _OPEN.sub(" ", command))


def _unversioned(name: str) -> str:
    """``php`` of ``php8.2``."""
    return name.rstrip("0123456789.") or name


def _program(words: list[str]) -> str | None:
    words = list(itertools.takewhile(lambda word: not _REDIRECTION.match(word), words))
    if words and words[0] in _HEADS:
        return None
    while words and (
        words[0] in _KEYWORDS
        or _RUNNERS.get(_base(words[0]), "") in words[1:2]
        or _ASSIGNMENT.fullmatch(words[0])
        or _is_variable(words[0])
        or _base(words[0]) in _WRAPPERS
    ):
        first = words.pop(0)
        if _is_variable(first) or _ASSIGNMENT.fullmatch(first):
            words = list(itertools.dropwhile(lambda word: word.startswith("-"), words))  # its options
        elif _base(first) in _RUNNERS:
            words = _wrapped(words[1:], "p", 0)
        elif _base(first) in _WRAPPERS:
            words = _wrapped(words, *_WRAPPERS[_base(first)])
    if not words or _base(words[0]) in _GUARDS or not re.search(r"\w", words[0]):
        return None
    name = _base(words[0])
    if _unversioned(name) not in _INTERPRETERS:
        return slug(_SUFFIX.sub("", name))
    plain = [word for word in words[1:] if not _is_variable(word)]
    return _script(plain, _unversioned(name)) or (_unversioned(name) if len(plain) < len(words) - 1 else None)


def _wrapped(words: list[str], valued: str, before: int) -> list[str]:
    """The command after the options of a program that runs it, and after so many words: ``flock -n FILE COMMAND``."""
    place = next((at for at, word in enumerate(words) if _COMMAND_OPTION.fullmatch(word)), None)
    if before and place is not None:  # su - app -c 'COMMAND'
        return words[place + 1 :]
    while words and (words[0].startswith("-") or (words[0].isdecimal() and not before)):
        option = words.pop(0)
        if words and (option in _LONG_VALUED or (len(option) == 2 and option[1] in valued)):
            words.pop(0)
    return words[before:]


def _script(words: list[str], interpreter: str) -> str | None:
    """What an interpreter runs, after its options, of which some have a value; None for a text on its command line."""
    rest, valued, code = iter(words), _VALUED.get(interpreter, ()), _code_option(interpreter)
    for word in rest:
        if word in valued:
            next(rest, None)
        elif word == code:
            return None
        elif word == "-m":
            return slug(next(rest, ""))
        elif not word.startswith(("-", "+")):
            return slug(_SUFFIX.sub("", _base(word)))
    return None


def _is_variable(word: str) -> bool:
    return _VARIABLE.fullmatch(word.strip("'\"")) is not None


def _base(word: str) -> str:
    return word.strip("'\"").rstrip("/").rpartition("/")[2]


def _replaced(command: str) -> str:
    """A command with something else in place of code: for a shell the code itself, for Python what it calls, if anything."""
    return _CODE.sub(lambda found: f"{found['before']} {_name(found)} ", command)


def _language_of(command: str) -> str | None:
    """The language of the first code on a command line."""
    return next(filter(None, map(_language, _CODE.finditer(command))), None)


def _code_option(program: str) -> str:
    """The option of an interpreter before code."""
    return f"-{_LETTERS.get(program, 'e')}"


def _language(found: re.Match[str]) -> str | None:
    return found["python"] or found["php"] or found["other"]


def _name(found: re.Match[str]) -> str:
    quoted = found["double"]
    code = found["single"] or found["bare"] or (re.sub(r"\\(.)", r"\1", quoted) if quoted else "")
    if found["shell"]:
        return code
    return (_called(code) if found["python"] else None) or ""


def _called(code: str) -> str | None:
    """The function that Python code calls last, if possible not one of the standard library; else the module that it imports first."""
    plain = _TEXTS.sub(" ", code)
    calls = [call for call in _CALL.findall(plain) if call not in _BUILTIN]
    own = [call for call in calls if call.partition(".")[0] not in sys.stdlib_module_names]
    modules = [name for name in _IMPORTED.findall(plain) if name.partition(".")[0] not in sys.stdlib_module_names]
    return next(reversed(own), None) or next(iter(modules), None) or next(reversed(calls), None)

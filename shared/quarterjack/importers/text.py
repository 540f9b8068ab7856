"""Texts of sources: decode files, mark the JSON documents in them, and make names of them, equal at every import."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection
from typing import Any

from quarterjack.apply.nodes import LARGEST
from quarterjack.errors import InvalidInput
from quarterjack.importers import inline

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # not tab and line feed; terminals interpret some of them
_NOT_BLANK = re.compile(r"\S")
_PAIR = re.compile(r"(\\\\)|\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")  # JSON's way past U+FFFF
_WIDE = (b"\xff\xfe", b"\xfe\xff")  # UTF-16, as PowerShell writes it
_SENSITIVE = r"[\w-]{0,60}?(?:passw(?:or)?d|passphrase|pass|pwd|secret|token|credentials?|(?:api|access|auth|cron|private)[_-]?key)"
_NAME_OF_SECRET = re.compile(rf"{_SENSITIVE}(?:[_-]?(?:id|key|\d+))?", re.IGNORECASE)
_SECRETS = re.compile(
    rf"""(?:(?<![\w-]){_SENSITIVE}["']?[ \t]*[=:][ \t]*|(?<![\w-])--?{_SENSITIVE}[ \t]+(?=[^\s-])"""
    r"""|mysql\w*(?:[ \t]+-?[\w./=-]+){0,8}?[ \t]+-p|(?:Bearer|Basic)[ \t]+"""
    r"""|[a-z][a-z0-9+]{1,20}://[^\s/@:]{0,100}:(?=[^\s/@]{1,200}@)"""
    r"""|(?<![\w-])(?:-u|--(?:proxy-)?user)[ \t=]{0,9}["']?[A-Za-z_][^\s:/'"]{0,100}:(?=[^\s/])|sshpass[ \t]+-p[ \t]*"""
    r"""|redis-cli(?:[ \t]+-?[\w./=-]+){0,8}?[ \t]+-a[ \t]+|[?&](?:key|sig|signature|code)="""
    r"""|hooks\.slack\.com/(?:services|workflows|triggers)/|/api/webhooks/|api\.telegram\.org/bot"""
    r"""|(?<!\w)(?=(?:xox[a-z]-|gh[a-z]_|github_pat_|glpat-|[rs]k_live_)\w))"""
    r"""(?P<value>"[^"$]+"|'[^'$]+'|[^\s"'|;&@<>()$]+)""",
    re.IGNORECASE,
)
STANDARD_INPUT = "standard input"  # name of the source that has none
_LONGEST = 180  # characters: room for what makes a name unique
_WORDS = 100  # of a command, in which its program is looked for
_OTHERS = re.compile(r"[^A-Za-z0-9._:@/-]+")
_SUBSTITUTION = re.compile(r"\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`")  # $(…), up to two deep
_PIECES = re.compile(r"&&|\|\||[;|(){}\n]|(?<![<>])&(?!>)")  # & is also a part of 2>&1 and &>
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=\S*")
_SUFFIX = re.compile(r"(?<=.)\.(sh|bash|py|pl|php|rb|js|jar|cgi|exe)$")
_ENDING = re.compile(r"(?<=.)\.(txt|cron(\.d)?|f?crontab|ya?ml|json|sample|example|dist|te?mpl(ate)?)$", re.IGNORECASE)
_KEYWORDS = frozenset({"if", "then", "else", "elif", "fi", "do", "done", "for", "while", "case", "esac", "!", "in"})
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
_BRACED = re.compile(r"\$\{([A-Za-z_]\w*)\}")
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


def text_of(data: bytes, source: str) -> str:
    """The text of a file. Raises InvalidInput if it is too large, not UTF-8, or contains control characters."""
    if len(data) > LARGEST:
        raise InvalidInput(source, f"{len(data):,} bytes", "is too large", f"split it: {LARGEST:,} at the most")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as problem:
        line = data[: problem.start].count(b"\n") + 1
        wide = "utf-16" if data[:2] in _WIDE else None if b"\0" in data else "latin1"
        remedy = f"convert it first: iconv -f {wide} -t utf-8 {source}" if wide else "give a text file"
        raise InvalidInput(f"{source}:{line}", data[problem.start :][:1], "is not UTF-8", remedy) from None
    control = _CONTROL.search(text)
    if control:
        line = text.count("\n", 0, control.start()) + 1
        raise InvalidInput(
            f"{source}:{line}", control[0], "is not text", "give a text file, or take this character out"
        )
    return text


def as_documents(text: str, source: str) -> str:
    """The text with a document marker before each JSON value, line numbers kept. Other text is returned unchanged.

    Raises InvalidInput with the line of a value that is not JSON.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return text
    decoder, end, parts = json.JSONDecoder(), 0, list[str]()
    while (first := _NOT_BLANK.search(text, end)) is not None:
        start = first.start()
        gap = text[end:start]
        try:
            _, end = decoder.raw_decode(text, start)
        except json.JSONDecodeError as problem:
            line = text.split("\n")[problem.lineno - 1].strip()
            what = f"is not JSON ({problem.msg})"
            raise InvalidInput(
                f"{source}:{problem.lineno}", without_secrets(line), what, "give what aws prints"
            ) from None
        except RecursionError:
            raise InvalidInput(source, text[:40], "is too deep", "give what aws prints") from None
        before = gap[: gap.rfind("\n") + 1] or ("\n" if parts else "")  # a marker begins its line
        parts += [before, "--- ", _PAIR.sub(_joined, text[start:end])]
    return "".join(parts)


def _joined(pair: re.Match[str]) -> str:
    """The character of a surrogate pair: YAML has no surrogates."""
    if pair[1]:
        return pair[1]
    return chr(0x10000 + (int(pair[2], 16) - 0xD800 << 10) + int(pair[3], 16) - 0xDC00)


def without_secrets(text: str) -> str:
    """A line as a report shows it: what looks like a password or token is left out.

    >>> without_secrets("MYSQL_PWD=hunter2 curl https://ada:pw@example.com/?token=1")
    'MYSQL_PWD=… curl https://ada:…@example.com/?token=…'
    """
    return _SECRETS.sub(lambda found: f"{found[0][: found.start('value') - found.start()]}…", text)


def names_a_secret(name: str) -> bool:
    """Whether the value of a variable of this name is a secret."""
    return _NAME_OF_SECRET.fullmatch(name) is not None


def holds_a_secret(value: Any, name: str = "") -> bool:
    """Whether a payload, or a value in it of this name, has what looks like a secret.

    >>> [holds_a_secret({"DATABASE_URL": f"postgres://{user}@db"}) for user in ("ada", "ada:pw")]
    [False, True]
    """
    if isinstance(value, dict):
        return any(holds_a_secret(one, str(key)) for key, one in value.items())
    if isinstance(value, list):
        words = " ".join(one for one in value if isinstance(one, str))
        return without_secrets(words) != words or any(map(holds_a_secret, value))
    return isinstance(value, str) and value != "" and (names_a_secret(name) or without_secrets(value) != value)


def stem_of(source: str, default: str) -> str:
    """A file's name without folder and ending, as a name; ``default`` for what came from standard input."""
    if source == STANDARD_INPUT:
        return default
    name = source.replace("\\", "/").rpartition("/")[2]
    return slug(_ENDING.sub("", name))


def slug(text: str) -> str:
    """A text as a name: characters that a name may not contain become hyphens."""
    return _OTHERS.sub("-", text).strip("-/")[:_LONGEST].strip("-/") or "schedule"


def program_of(command: str) -> str:
    """The main program of a shell line: the first one that is not a test or a wrapper. Code on it is named for what it calls.

    >>> program_of("test -x /usr/bin/certbot && /usr/bin/certbot -q renew")
    'certbot'
    >>> program_of("cd /srv/app && ./manage.py clearsessions")
    'manage'
    >>> program_of("python3 -c 'from shop.tasks import purge; purge(days=7)'")
    'purge'
    """
    plain = _BRACED.sub(r"$\1", _SUBSTITUTION.sub(" ", inline.replaced(command)))
    pieces = _PIECES.split(_JOINED.sub(" ", plain))
    found = next(filter(None, (_program(piece.split()[:_WORDS]) for piece in pieces)), None)
    return found or inline.language_of(command) or "command"


def is_skipped_while_locked(command: str) -> bool:
    """Whether ``flock -n`` ends a command at once while an earlier run of it has the lock."""
    return _SKIPPING.search(command) is not None


def starts_another(word: str) -> bool:
    """Whether a word is a shell's own, or a program that runs another one: ``cd``, ``source``, ``nice``, ``php8.2``."""
    return word in _KEYWORDS | _GUARDS | _WRAPPERS.keys() or _unversioned(word) in _INTERPRETERS


def _unversioned(name: str) -> str:
    """``php`` of ``php8.2``."""
    return name.rstrip("0123456789.") or name


def _program(words: list[str]) -> str | None:
    words = list(itertools.takewhile(lambda word: not _REDIRECTION.match(word), words))
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
    rest, valued, code = iter(words), _VALUED.get(interpreter, ()), inline.code_option(interpreter)
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

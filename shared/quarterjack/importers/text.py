"""Texts of sources: decode files, mark the JSON documents in them, and make names of them, equal at every import."""

from __future__ import annotations

import json
import re
from typing import Any

from quarterjack.apply.nodes import LARGEST
from quarterjack.errors import InvalidInput

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
_OTHERS = re.compile(r"[^A-Za-z0-9._:@/-]+")
_ENDING = re.compile(
    r"(?<=.)\.(txt|cron(\.d)?(\.ex)?|f?crontab|ya?ml|json|tab|sample|example|dist|te?mpl(ate)?)$", re.IGNORECASE
)


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

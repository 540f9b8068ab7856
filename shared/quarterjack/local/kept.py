"""Small files of a data directory, kept from one start to the next: ports and keys. A damaged one is an error with its remedy."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from quarterjack.errors import Misconfigured, shorten

_MOST = 65_535  # the highest port
_KEY = re.compile(r"[!-~]{16,200}")


def kept_port(file: Path) -> int:
    """The port that was kept; 0 before the first start. Raises Misconfigured if the file has something else."""
    text = _read(file)
    if text is None:
        return 0
    if not (text.strip().isdecimal() and text.isascii() and int(text) <= _MOST):
        raise _damaged(file, "is no port", shorten(text), "the next start takes a free one")
    return int(text)


def kept_key(file: Path, make: Callable[[], str]) -> str:
    """The key that was kept, or a new one. Raises Misconfigured if the file has something else. Keys are not shown."""
    return kept_keys(file, lambda: {"key": make()})["key"]


def kept_keys(file: Path, make: Callable[[], Mapping[str, str]]) -> dict[str, str]:
    """The keys that were kept by name, or those that ``make`` gives, which are kept from then on, for this user alone."""
    text = _read(file)
    if text is None:
        new = dict(make())
        keep(file, json.dumps(new))
        return new
    file.chmod(0o600)  # a copy may have been open to others
    try:
        found: Any = json.loads(text)
    except ValueError:
        found = None
    names = make().keys()
    if not isinstance(found, dict) or found.keys() != names or not all(map(_is_key, found.values())):
        raise _damaged(file, f"does not have {', '.join(names)}", "its content", "the next start makes new ones")
    return found


def keep(file: Path, text: str) -> None:
    """Replace the file as a whole; it belongs to this user alone."""
    new = file.with_name(f"{file.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(text)
    new.replace(file)


def _read(file: Path) -> str | None:
    return file.read_text(errors="replace") if file.exists() else None


def _is_key(value: object) -> bool:
    return isinstance(value, str) and _KEY.fullmatch(value) is not None


def _damaged(file: Path, problem: str, found: str, then: str) -> Misconfigured:
    return Misconfigured(f"{str(file)!r}: {found} {problem}; remove the file: {then}")

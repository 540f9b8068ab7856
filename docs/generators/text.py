"""Text of docstrings and remarks as Markdown."""

from __future__ import annotations

import re
from enum import Enum

# What most calls raise is said once, in front.
_USUAL_ERRORS = re.compile(r"\s*Raises (?:(?:InvalidInput|NotFound|Forbidden|Unavailable)(?:, | and )?)+\.$")


def prose(docstring: str) -> str:
    """A docstring as Markdown, without its examples: the guides have them, with their stories."""
    lines, example = list[str](), False
    for line in _USUAL_ERRORS.sub("", docstring).splitlines():
        example = line.startswith(">>>") or (example and bool(line.strip()))
        lines += [] if example else [line]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines).strip()) + "\n"


def one_line(text: str) -> str:
    """Text of a docstring or remark on one line."""
    return " ".join(_USUAL_ERRORS.sub("", text).replace("``", "`").split())


def shown(value: object) -> str:
    return str(value) if isinstance(value, Enum) else repr(value)


def variables(text: str) -> str:
    names = re.findall(r"[A-Z][A-Z_]+", text)
    return " or ".join(f"`{name}`" for name in names)

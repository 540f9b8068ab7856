"""Code on a command line, as in ``python3 -c '…'``: what it is about, so that its schedule gets a name."""

from __future__ import annotations

import builtins
import re
import sys

_SHELLS = "sh|bash|dash|zsh|ksh"
_LANGUAGES = "python|perl|ruby|node|php"
_CODE = re.compile(
    rf"""(?P<before>^|[\s;&|(])(?:[\w./-]*/)?(?:(?P<shell>{_SHELLS})|(?P<language>{_LANGUAGES})[0-9.]*)"""
    r"""(?:\s+-[A-Za-z]+)*?\s+-[a-z]*(?P<letter>[cer])\s+(?:'(?P<single>[^']*)'|"(?P<double>(?:\\.|[^"\\])*)"|(?P<bare>[^\s'"]+))"""
)
_LETTERS = {**dict.fromkeys(_SHELLS.split("|"), "c"), "python": "c", "php": "r"}  # before code; others: e
_TEXTS = re.compile(r"""'[^']*'|"[^"]*\"""")
_CALL = re.compile(r"(?<![\w.)\]])([A-Za-z_]\w*(?:\.\w+)*)\s*\(")
_IMPORTED = re.compile(r"\b(?:import|from)\s+([A-Za-z_][\w.]*)")
_BUILTIN = frozenset(dir(builtins))


def replaced(command: str) -> str:
    """A command with something else in place of code: for a shell the code itself, for Python what it calls, if anything."""
    return _CODE.sub(lambda found: f"{found['before']} {_name(found)} " if _is_code(found) else found[0], command)


def language_of(command: str) -> str | None:
    """The language of the first code on a command line."""
    return next((found["language"] for found in _CODE.finditer(command) if found["language"]), None)


def code_option(program: str) -> str:
    """The option of an interpreter before code: ``-r`` of php, which has a module behind it in ruby and node."""
    return f"-{_LETTERS.get(program, 'e')}"


def _is_code(found: re.Match[str]) -> bool:
    return code_option(found["shell"] or found["language"]) == f"-{found['letter']}"


def _name(found: re.Match[str]) -> str:
    quoted = found["double"]
    code = found["single"] or found["bare"] or (re.sub(r"\\(.)", r"\1", quoted) if quoted else "")
    if found["shell"]:
        return code
    return (_called(code) if found["language"] == "python" else None) or ""


def _called(code: str) -> str | None:
    """The function that Python code calls last, if possible not one of the standard library; else the module that it imports first."""
    plain = _TEXTS.sub(" ", code)
    calls = [call for call in _CALL.findall(plain) if call not in _BUILTIN]
    own = [call for call in calls if call.partition(".")[0] not in sys.stdlib_module_names]
    modules = [name for name in _IMPORTED.findall(plain) if name.partition(".")[0] not in sys.stdlib_module_names]
    return next(reversed(own), None) or next(iter(modules), None) or next(reversed(calls), None)

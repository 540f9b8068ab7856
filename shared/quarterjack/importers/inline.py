"""Code on a command line, as in ``python3 -c '…'``: what it is about, so that its schedule gets a name."""

from __future__ import annotations

import builtins
import re
import sys

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


def replaced(command: str) -> str:
    """A command with something else in place of code: for a shell the code itself, for Python what it calls, if anything."""
    return _CODE.sub(lambda found: f"{found['before']} {_name(found)} ", command)


def language_of(command: str) -> str | None:
    """The language of the first code on a command line."""
    return next(filter(None, map(_language, _CODE.finditer(command))), None)


def code_option(program: str) -> str:
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

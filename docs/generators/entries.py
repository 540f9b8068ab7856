"""Entries of the page of the public API: a class or function with its signature, fields, members and docstring."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any

import quarterjack
from quarterjack import settings, testing
from quarterjack.domain.run import RunState
from quarterjack.ready_jobs import http
from quarterjack.web.shapes import remarks

from docs.generators.text import one_line, prose, shown

_WIDE = 100  # characters of a signature on one line

# Classes that users make: their fields have defaults. Those of results are of no interest.
_MADE = (quarterjack.Retry, quarterjack.Redact, quarterjack.Rule, quarterjack.Queue, http.Request, http.Secret)

_HEADED = ("Scheduler", "Tenants", "Context")  # classes whose methods have headings

# Classes whose fields and members another page has.
_ELSEWHERE: dict[type, str] = {
    settings.Settings: "Its fields: [settings](settings.md).",
    RunState: "Its members: [states](../explanation/runs.md#states).",
}

_OF_REGISTRY = {
    "job": "job",
    "queue": "Queue",
    "middleware": "middleware",
}  # its methods, and the functions that do the same for the default one


def entry_of(name: str, thing: Any) -> Iterator[str]:
    yield f"## `{name}`\n"
    if isinstance(thing, type):
        yield prose(inspect.getdoc(thing) or "")
        yield from _body(thing) if thing not in _ELSEWHERE else [f"{_ELSEWHERE[thing]}\n"]
        return
    if isinstance(thing, tuple):  # of classes
        yield f"`({', '.join(one.__name__ for one in thing)})`: exceptions for `Retry(never_on=…)`.\n"
        return
    yield _signature(name, thing)
    yield prose(inspect.getdoc(thing) or "")


def _body(kind: type) -> Iterator[str]:
    if issubclass(kind, Enum):
        yield from (f"- `{_member_name(kind[name])}`: {one_line(what)}" for name, what in remarks(kind).items())
        yield ""
    elif is_dataclass(kind):
        yield from _fields(kind)
    elif kind is quarterjack.AsyncScheduler:
        yield "    AsyncScheduler(..., threads: int = THREADS)\n"
    elif inspect.isfunction(init := inspect.getattr_static(kind, "__init__")):
        yield _signature(kind.__name__, init)
    members = public_members(kind)
    others = [name for name, member in members.items() if _is_elsewhere(kind, name, member)]
    short = [name for name in members if name not in others and _is_short(kind, name, members[name])]
    if kind is testing.Memory:  # its methods have the names of what they return or put
        yield f"Its members are {', '.join(f'`{name}`' for name in short)}."
    else:
        yield from (f"- `{_short_signature(name, members[name])}`: {one_line(_doc(kind, name))}" for name in short)
    yield from [""] * bool(short)
    for name, member in members.items():
        if name not in others and name not in short:
            yield from _member(kind, name, member)
    if others:
        yield "All other methods are those of [`Scheduler`](#scheduler).\n"


def _doc(kind: type, name: str) -> str:
    return inspect.getdoc(getattr(kind, name)) or ""


def _is_elsewhere(kind: type, name: str, member: Any) -> bool:
    """Whether a method only passes on to another class, which describes it."""
    return hasattr(member, "__wrapped__") or _doc(kind, name).startswith("See ``Scheduler.")


def _is_short(kind: type, name: str, member: Any) -> bool:
    """Whether one line describes a member. Those of the classes in _HEADED have headings of their own, to be linked."""
    return (
        kind.__name__ not in _HEADED
        and "\n\n" not in _doc(kind, name)
        and len(_short_signature(name, member)) <= _WIDE
        and not (kind is quarterjack.Registry and name in _OF_REGISTRY)
    )


def _short_signature(name: str, member: Any) -> str:
    return name if isinstance(member, property) else _signature(name, member).strip()


def _member_name(member: Enum) -> str:
    """A member of an enum, with its value where that is another word."""
    same = str(member.value).lower() == member.name.lower()
    return repr(member.value) if same else f"{member.name} = {member.value!r}"


def _fields(kind: Any) -> Iterator[str]:
    what = remarks(kind)
    for field in fields(kind):
        if field.name.startswith("_") or not field.init or "``pinning" in what.get(field.name, ""):
            continue
        default = "" if field.default is MISSING or kind not in _MADE else f" = {shown(field.default)}"
        if field.default_factory is not MISSING and kind in _MADE:
            default = f" = {shown(field.default_factory())}"
        yield f"- `{field.name}: {field.type}{default}`: {one_line(what.get(field.name, ''))}"
    yield ""


def public_members(kind: type) -> dict[str, Any]:
    """The public methods and properties of a class and its bases here, in the order in which they are written."""
    ours = [base for base in kind.__mro__ if base.__module__.partition(".")[0] == quarterjack.__name__]
    written = [(name, member) for base in ours for name, member in vars(base).items() if not name.startswith("_")]
    found = {name: member for name, member in written if inspect.isfunction(member) or isinstance(member, property)}
    return {name: inspect.getattr_static(kind, name) for name in found}


def _member(kind: type, name: str, member: Any) -> Iterator[str]:
    if kind is quarterjack.Registry and name in _OF_REGISTRY:
        same = _OF_REGISTRY[name]
        yield f"### `{kind.__name__}.{name}`\n\nAs [`{same}`](#{same.lower()}), for this registry.\n"
        return
    text = prose(inspect.getdoc(getattr(kind, name)) or "")
    if isinstance(member, property):
        yield f"### `{kind.__name__}.{name}` (property)\n\n{text}"
    else:
        yield f"### `{kind.__name__}.{name}`\n\n{_signature(name, member)}\n{text}"


def _signature(name: str, function: Any) -> str:
    """A function's signature as it is written in the code, without ``self``."""
    tree = _tree(function)
    name = name if isinstance(tree, ast.FunctionDef) else f"await {name}"
    parts = _parameters(tree.args)
    if original := vars(function).get("passes_on_to"):  # its parameters stand in the place of ``**given``
        passed = _parameters(_tree(original).args)
        parts = passed + [part for part in parts if part not in passed and not part.startswith("**")]
    returns = "" if tree.returns is None or tree.name == "__init__" else f" -> {ast.unparse(tree.returns)}"
    line = f"{name}({', '.join(parts)}){returns}"
    if len(line) > _WIDE:
        line = f"{name}(\n    " + ",\n    ".join(parts) + f",\n){returns}"
    return textwrap.indent(line, "    ") + "\n"


def _tree(function: Any) -> ast.FunctionDef | ast.AsyncFunctionDef:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body
    assert isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)
    return tree


def _parameters(arguments: ast.arguments) -> list[str]:
    """Each parameter as text, with the star before those that are given by keyword."""
    positional = arguments.args
    given = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    parts = [_parameter(one, default) for one, default in zip(positional, given, strict=True)]
    parts = parts[1:] if positional and positional[0].arg in ("self", "cls") else parts
    if arguments.vararg is not None:
        parts.append("*" + _parameter(arguments.vararg, None))
    elif arguments.kwonlyargs:
        parts.append("*")
    parts += [
        _parameter(one, default) for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return parts + ([] if arguments.kwarg is None else ["**" + _parameter(arguments.kwarg, None)])


def _parameter(one: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(one) + ("" if default is None else f" = {ast.unparse(default).replace('NONE', 'None')}")

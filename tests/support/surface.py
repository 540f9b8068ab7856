"""The surface of a release: what programs, settings, command lines and HTTP clients of its users name. Kept under tests/data/surface.

    python -m tests.support.surface --write     keeps that of this release

A later release of the same line has all of it, as it was, and may have more: ``breaks`` says what is gone, differs, or is asked for
that was not (a new parameter without a default, a new field that a request must have).
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from quarterjack.cli.app import whole
from quarterjack.cli.exits import ExitCode
from quarterjack.domain.options import OptionWords
from quarterjack.sdk.requests import ScheduleWords
from quarterjack.settings import Settings

from docs.generators.commands import leaves
from tests.support.api import document
from tests.support.released import LINE, check_open

FOLDER = Path(__file__).parents[1] / "data" / "surface"
_CONSTRUCT = Path(__file__).parents[2] / "infra" / "quarterjack.py"
MODULES = ("quarterjack", "quarterjack.errors", "quarterjack.testing", "quarterjack.web")
NEEDED = "needed"  # of a parameter, an option or a field: nothing stands in for it
_DEEP = 3  # levels of the kept file that have a line for each entry
_TOLD = {"description", "summary", "title", "examples", "example", "tags"}  # texts of a document

Surface = dict[str, Any]


@cache
def surface() -> Surface:
    """That of the present code, as JSON-able values."""
    found = {
        "python": {module: _module(module) for module in MODULES},
        "construct": _construct(),
        "options": {name: {} for words in (ScheduleWords, OptionWords) for name in words.__annotations__},
        "settings": {field.name: repr(field.default) for field in dataclasses.fields(Settings)},
        "commands": {" ".join(path): _command(command) for path, command in leaves(whole(), ("quarterjack",))},
        "exits": {each.name: each.value for each in ExitCode},
        "http": _http(document()),
    }
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def kept(release: str) -> Surface:
    """The surface of a release."""
    return json.loads((FOLDER / f"{release}.json").read_text())  # type: ignore[no-any-return]


def releases() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def breaks(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """What users of the surface ``before`` would miss in the other one."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            inner = f"{path}/{name}"
            yield from breaks(value, after[name], inner) if name in after else (f"{inner}: gone",)
        for name in after.keys() - before.keys():
            if isinstance(after[name], dict) and after[name].get(NEEDED):
                yield f"{path}/{name}: new, and needed"
    elif isinstance(before, list) and isinstance(after, list):
        yield from (f"{path}: {each!r} is gone" for each in before if each not in after)
    elif before != after:
        yield f"{path}: was {before!r}, is {after!r}"


# Python.


def _module(name: str) -> Surface:
    module = importlib.import_module(name)
    names = getattr(module, "__all__", None) or [each for each, home in vars(module).items() if _is_own(home, module)]
    return {each: _named(getattr(module, each)) for each in names if not inspect.ismodule(getattr(module, each))}


def _is_own(value: object, module: object) -> bool:
    public = not getattr(value, "__name__", "_").startswith("_")
    return public and getattr(value, "__module__", None) == getattr(module, "__name__", "")


def _named(value: Any) -> Any:
    if inspect.isclass(value):
        return _class(value)
    return _call(value) if callable(value) else repr(type(value).__name__)


def _class(cls: type) -> Surface:
    found: Surface = {"is": sorted(base.__name__ for base in cls.__mro__ if base.__module__.startswith("quarterjack"))}
    if issubclass(cls, enum.Enum):
        return found | {"members": {each.name: str(each.value) for each in cls}}
    if dataclasses.is_dataclass(cls):
        found["fields"] = {field.name: str(field.type) for field in dataclasses.fields(cls) if field.name[0] != "_"}
    if not issubclass(cls, BaseException):
        found["()"] = _call(cls)
    ours = [base for base in cls.__mro__ if base.__module__.startswith("quarterjack")]
    for name in {name for base in ours for name in vars(base) if not name.startswith("_")}:
        member = inspect.getattr_static(cls, name)
        if isinstance(member, property):
            found[name] = "property"
        elif callable(getattr(cls, name)):
            found[name] = _call(getattr(cls, name))
    return found


def _call(function: Any) -> Surface:
    """Parameters in their order: each by name, with its place if it may be given by place."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # of a builtin
        return {}
    found: Surface = {}
    for place, (name, one) in enumerate(signature.parameters.items()):
        by_place = one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        kind = {"kind": one.kind.name} | ({"place": place} if by_place else {})
        has_default = one.default is not one.empty or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        found[name] = kind | ({"default": _default(one.default)} if has_default else {NEEDED: True})
    return found


def _default(value: object) -> str:
    """Without addresses of objects, which differ from process to process."""
    plain = value is None or isinstance(value, (str, int, float, bool, tuple, frozenset, enum.Enum))
    return repr(value) if plain else type(value).__name__


def _construct() -> Surface:
    """The parameters of the CDK construct, from its source: to import it starts Node."""
    tree = ast.parse(_CONSTRUCT.read_text(encoding="utf-8"))
    (own,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Quarterjack")
    (init,) = (node for node in own.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    found: Surface = {}
    for one, default in zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True):
        found[one.arg] = {NEEDED: True} if default is None else {"default": ast.unparse(default)}
    return found


# The command line.


def _command(command: Any) -> Surface:
    """Options and arguments, by each of their names."""
    return {
        name: {NEEDED: True} if one.required else {}
        for one in command.params
        for name in [*one.opts, *one.secondary_opts]
    }


# The HTTP API.


def _http(of: Mapping[str, Any]) -> Surface:
    paths = {
        f"{method.upper()} {path}": _operation(operation)
        for path, operations in of["paths"].items()
        for method, operation in operations.items()
        if method in ("get", "put", "post", "patch", "delete")
    }
    asked = {name for one in paths.values() for name in _references(one.get("body"))}
    schemas = of["components"]["schemas"]
    todo = list(asked)
    while todo:  # what a request's schema refers to is part of the request
        more = _references(schemas[todo.pop()]) - asked
        asked |= more
        todo += more
    return {"paths": paths, "schemas": {name: _schema(one, asked=name in asked) for name, one in schemas.items()}}


def _operation(operation: Mapping[str, Any]) -> Surface:
    parameters = {
        f"{one['in']} {one['name']}": {"schema": _schema(one["schema"], asked=True)}
        | ({NEEDED: True} if one.get("required") else {})
        for one in operation.get("parameters", [])
    }
    found: Surface = {"parameters": parameters}
    if "requestBody" in operation:
        found["body"] = _content(operation["requestBody"], asked=True)
    found["answers"] = {code: _content(one, asked=False) for code, one in operation["responses"].items()}
    return found


def _content(of: Mapping[str, Any], *, asked: bool) -> Surface:
    return {kind: _schema(one.get("schema", {}), asked=asked) for kind, one in of.get("content", {}).items()}


def _schema(schema: Any, *, asked: bool) -> Any:
    """Without texts; of an object in a request, which of its fields are needed, and of an answer, which are always there."""
    if isinstance(schema, list):
        return [_schema(one, asked=asked) for one in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: _schema(one, asked=asked) for name, one in schema.items() if name not in _TOLD}
    required = plain.pop("required", [])
    if isinstance(plain.get("properties"), dict):
        fields = {
            name: _schema(one, asked=asked) | ({NEEDED if asked else "always": True} if name in required else {})
            for name, one in schema["properties"].items()
        }
        plain["properties"] = fields
    return plain


def _references(value: Any) -> set[str]:
    """The names of the schemas to which a value refers."""
    if isinstance(value, dict):
        own = {value["$ref"].rpartition("/")[2]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(_references(one) for one in value.values()))
    return set().union(*(_references(one) for one in value)) if isinstance(value, list) else set()


def main() -> None:
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    check_open()
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{LINE}.json").write_text(_text(surface()) + "\n")


def _text(value: Any, depth: int = 0) -> str:
    """JSON with a line for each entry of the third level."""
    if depth == _DEEP or not isinstance(value, dict) or not value:
        return json.dumps(value, sort_keys=True)
    lines = (f"{json.dumps(name)}: {_text(inner, depth + 1)}" for name, inner in sorted(value.items()))
    return "{\n" + ",\n".join(lines) + "\n}"


if __name__ == "__main__":
    main()

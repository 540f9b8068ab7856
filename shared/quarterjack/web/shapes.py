"""The SDK's views as JSON documents. A shape gives both the document and its schema, so that the two cannot differ.

The description of a field in the schema is the comment beside the field in the code.
"""

from __future__ import annotations

import ast
import inspect
import io
import json
import textwrap
import tokenize
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, datetime, timedelta
from functools import cache, cached_property
from types import GenericAlias
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, create_model

from quarterjack.domain.policies import Retry
from quarterjack.domain.policies.flow import Flow
from quarterjack.timing import Rule

Added = tuple[Any, str, Callable[[Any], Any]]  # type, description, and what it is of a view


@dataclass(frozen=True)
class Shape:
    """A kind of view: its fields without some, and with some that are derived."""

    kind: type
    leave_out: Collection[str] = ()
    add: Mapping[str, Added] = field(default_factory=dict)
    name: str = ""  # of the schema; "": that of the kind

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in fields(self.kind) if one.init and one.name not in self.leave_out)

    def document(self, item: Any) -> dict[str, Any]:
        """A view as JSON values."""
        found = {name: as_json(getattr(item, name)) for name in self.names}
        return found | {name: as_json(make(item)) for name, (_, _, make) in self.add.items()}

    @cached_property
    def model(self) -> type[BaseModel]:
        """Its schema. Every field is in every document."""
        hints, comments = get_type_hints(self.kind), remarks(self.kind)
        said: dict[str, Any] = {
            name: (_schema_type(hints[name]), Field(description=comments.get(name) or None)) for name in self.names
        }
        said |= {name: (_schema_type(hint), Field(description=text)) for name, (hint, text, _) in self.add.items()}
        made: type[BaseModel] = create_model(self.name or self.kind.__name__, __doc__=_first_line(self.kind), **said)
        return made


_SHAPES: dict[type, Shape] = {}


def shape(kind: type, *, leave_out: Collection[str] = (), add: Mapping[str, Added] | None = None) -> Shape:
    """The one shape of a kind, for wherever a view of it occurs."""
    _SHAPES[kind] = Shape(kind, leave_out, add or {})
    return _SHAPES[kind]


def shape_of(kind: type) -> Shape:
    return _SHAPES.get(kind) or shape(kind)


def page_model(of: type[BaseModel], **more: Any) -> type[BaseModel]:
    """The schema of a page of some documents."""
    items: Any = GenericAlias(list, (of,))
    said: dict[str, Any] = {
        "items": (items, Field(description="in a stable order")),
        "cursor": (
            str | None,
            Field(description="of the next page, with the same conditions; null: this is the last page"),
        ),
    }
    made: type[BaseModel] = create_model(f"{of.__name__}Page", **said, **more)
    return made


def as_json(value: Any) -> Any:
    """A value of the SDK as JSON values: ISO 8601 for times, seconds for durations."""
    if type(value) in _SAME:
        return value
    form = next((form for kinds, form in _FORMS if isinstance(value, kinds)), None)
    if form is not None:
        return form(value)
    is_view = is_dataclass(value) and not isinstance(value, type)
    return shape_of(type(value)).document(value) if is_view else str(value)


_SAME = frozenset({type(None), bool, int, float, str})
_FORMS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (str, str),  # a word
    ((datetime, date), lambda moment: moment.isoformat()),
    (timedelta, timedelta.total_seconds),
    (Rule, Rule.as_dict),
    (Mapping, lambda pairs: {str(key): as_json(one) for key, one in pairs.items()}),
    ((list, tuple, set, frozenset), lambda items: [as_json(one) for one in items]),
)


def json_bytes(value: Any) -> bytes:
    """JSON values as UTF-8. Half a pair of surrogates, which a job's result may hold, is written as an escape."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


_PLAINER: Mapping[Any, Any] = {timedelta: float, Rule: dict[str, Any], Retry: dict[str, Any], Flow: dict[str, Any]}


def _schema_type(hint: Any) -> Any:
    """A type of the SDK as one that Pydantic has a schema for."""
    if is_dataclass(hint) and isinstance(hint, type) and hint not in _PLAINER:
        return shape_of(hint).model
    origin, parts = get_origin(hint), get_args(hint)
    if origin is None or origin is Literal:
        return _PLAINER.get(hint, hint)
    inner = tuple(map(_schema_type, parts))
    if origin in (Union, types.UnionType):
        return Union[inner]  # noqa: UP007 (of types that are known now)
    return GenericAlias(dict, inner) if issubclass(origin, Mapping) else GenericAlias(list, inner[:1])


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().split("\n\n")[0].replace("``", "`")


@cache
def remarks(kind: type) -> Mapping[str, str]:
    """The comment beside each field of a class or member of an enum, by name. None without the source, as in a frozen program."""
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):
        return {}
    found = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type is tokenize.COMMENT
    }
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    result = {}
    for node in tree.body:
        if isinstance(node, ast.AnnAssign):
            target: ast.expr | None = node.target
        else:
            target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Name):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            result[target.id] = " ".join(found[line] for line in lines if line in found)
    return result

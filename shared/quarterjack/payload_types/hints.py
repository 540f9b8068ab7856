"""Read the annotation of a job's payload parameter, without importing Pydantic."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import operator
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Any

_SEQUENCES = (list, tuple, collections.abc.Sequence, collections.abc.Collection, collections.abc.Iterable)
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_PLAIN = {Any, object, None, type(None), str, int, float, bool, ..., *_SEQUENCES, *_MAPPINGS}
# Annotations as text that need no evaluation: their names are often imported for type checkers only.
_NAME = r"(?:typing\.)?(?:Any|object|None|str|int|float|bool|dict|Dict|list|List|Mapping|MutableMapping)"
_PLAIN_TEXT = re.compile(rf"{_NAME}(?:\[{_NAME}(?:, {_NAME})?\])?\Z")


class Unresolved(Exception):
    """A name in an annotation is not known in the function's module, or not yet."""


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature, also if its annotations have names that are not known. Raises TypeError, ValueError."""
    more: dict[str, Any] = {}
    if sys.version_info >= (3, 14):
        import annotationlib  # noqa: PLC0415 (new there)

        more = {"annotation_format": annotationlib.Format.FORWARDREF}
    return inspect.signature(function, **more)


def annotation_of(function: Callable[..., Any]) -> Any:
    """The annotation of the second parameter, possibly text; ``inspect.Parameter.empty`` if there is none."""
    parameters = list(signature_of(function).parameters.values())
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if len(parameters) < 2 or parameters[1].kind not in by_position:
        return inspect.Parameter.empty
    return parameters[1].annotation


def resolved(annotation: Any, function: Callable[..., Any], names: Mapping[str, Any]) -> Any:
    """The annotation without text in it. ``names`` are those where the function is declared. Raises Unresolved."""

    def holder() -> None: ...

    holder.__annotations__ = {"payload": annotation}
    try:
        return typing.get_type_hints(holder, _globals(function), dict(names), include_extras=True)["payload"]
    except (NameError, AttributeError, TypeError, SyntaxError) as problem:
        raise Unresolved(str(problem)) from None


def _globals(function: Any) -> dict[str, Any]:
    """The names of the module in which the function is written."""
    while isinstance(function, functools.partial):
        function = function.func
    found = inspect.unwrap(getattr(function, "__func__", function))
    if not hasattr(found, "__globals__"):  # an object that can be called
        found = inspect.unwrap(type(found).__call__)
    return getattr(found, "__globals__", {})


def is_plain_text(annotation: object) -> bool:
    """Whether an annotation is text that names types of JSON alone."""
    return isinstance(annotation, str) and _PLAIN_TEXT.match(annotation) is not None


def is_plain(annotation: Any) -> bool:
    """Whether an annotation without text in it is made of JSON's own types alone: such a payload is not checked."""
    return all(_is_plain_leaf(leaf) for leaf in _leaves(annotation))


def has_own_rules(annotation: Any) -> bool:
    """Whether Pydantic's configuration of a class says how strict it is: a model, or a class with ``__pydantic_config__``."""
    return any(isinstance(leaf, type) and _is_configured(leaf) for leaf in _leaves(annotation))


def _is_configured(leaf: type) -> bool:
    names = ("__pydantic_config__", "__pydantic_validator__")  # the latter of models and of Pydantic's dataclasses
    return any(name in vars(base) for base in leaf.__mro__ for name in names)


def _is_plain_leaf(leaf: Any) -> bool:
    # A reference that is left in an alias is one to the alias itself.
    if isinstance(leaf, (typing.TypeVar, typing.ForwardRef, str)) or getattr(leaf, "_is_protocol", False):
        return True
    if typing.is_typeddict(leaf) or is_dataclass(leaf):
        return False
    try:
        return leaf in _PLAIN
    except TypeError:  # not hashable
        return False


def _leaves(annotation: Any, within: tuple[Any, ...] = ()) -> typing.Iterator[Any]:
    """The classes of which an annotation is made; ``Annotated`` and ``Literal`` are leaves themselves, because they check.

    ``within``: the aliases in which it is.
    """
    named = getattr(annotation, "__supertype__", None) or getattr(annotation, "__value__", None)
    if isinstance(annotation, typing.NewType) or type(annotation).__name__ == "TypeAliasType":
        if annotation not in within:
            yield from _leaves(named, (*within, annotation))
        return
    origin = typing.get_origin(annotation)
    if origin is None or origin is typing.Annotated or origin is typing.Literal:
        yield annotation
        return
    if origin not in (typing.Union, types.UnionType):
        yield origin
    for argument in typing.get_args(annotation):
        yield from _leaves(argument, within)


# Python 3.11: Pydantic takes a TypedDict from typing_extensions only.


def portable(annotation: Any, names: Mapping[str, Any], done: dict[Any, Any] | None = None) -> Any:
    """The annotation with each ``typing.TypedDict`` replaced by an equal one that Pydantic takes. Its values are dicts either way.

    ``names`` are as in ``resolved``; ``done`` are those that are being replaced.
    """
    done = {} if done is None else done
    if typing.is_typeddict(annotation) and type(annotation).__module__ == "typing" and sys.version_info < (3, 12):
        if annotation not in done:
            done[annotation] = annotation  # one that contains itself stays, and Pydantic says what to do
            done[annotation] = _rebuilt(annotation, names, done)
        return done[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if not arguments or origin is typing.Literal:
        return annotation
    if origin is typing.Annotated:
        return typing.Annotated[(portable(arguments[0], names, done), *arguments[1:])]
    changed = tuple(portable(argument, names, done) for argument in arguments)
    if changed == arguments:
        return annotation
    return functools.reduce(operator.or_, changed) if origin in (typing.Union, types.UnionType) else origin[changed]


def _rebuilt(kind: Any, names: Mapping[str, Any], done: dict[Any, Any]) -> Any:
    import typing_extensions  # noqa: PLC0415 (comes with Pydantic)

    fields = {}
    for name, hint in typing.get_type_hints(kind, None, dict(names), include_extras=True).items():
        qualifier = typing_extensions.Required if name in kind.__required_keys__ else typing_extensions.NotRequired
        if typing.get_origin(hint) in (typing.Required, typing.NotRequired):
            qualifier, hint = typing.get_origin(hint), typing.get_args(hint)[0]  # noqa: PLW2901 (unpacked)
        fields[name] = qualifier[portable(hint, names, done)]
    make: Any = typing_extensions.TypedDict
    made = make(kind.__name__, fields)
    made.__module__, made.__doc__ = kind.__module__, kind.__doc__
    if hasattr(kind, "__pydantic_config__"):
        made.__pydantic_config__ = kind.__pydantic_config__
    return made

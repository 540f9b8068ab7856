"""Frozen dataclasses that are made by the thousand.

The ``__init__`` that dataclasses give to a frozen class calls ``object.__setattr__`` for each field: a quarter of a worker's CPU. This
one puts the values into the instance's dictionary, as attrs does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from functools import wraps
from typing import Any, TypeVar

_T = TypeVar("_T")


def quick(cls: type[_T]) -> type[_T]:
    """Make a frozen dataclass without ``__post_init__`` or slots quick to construct."""
    made: tuple[Field[Any], ...] = fields(cls)  # type: ignore[arg-type]  # it is a dataclass
    names: dict[str, Any] = {}
    source = "\n ".join(
        (
            f"def __init__({', '.join(('self', *_parameters(made, names)))}):",
            "of_instance = self.__dict__",
            *(_assigned(each) for each in made),
        )
    )
    exec(source, names)  # noqa: S102  # of the names of fields alone, as dataclasses does it
    cls.__init__ = wraps(cls.__init__)(names["__init__"])  # type: ignore[method-assign]
    return cls


def _parameters(made: tuple[Field[Any], ...], names: dict[str, Any]) -> Iterator[str]:
    """As the class has them; what stands for a default goes into ``names``."""
    starred = False
    for each in sorted(made, key=lambda each: bool(each.kw_only)):
        if each.kw_only and not starred:
            starred = True
            yield "*"
        if each.default is not MISSING:
            names[f"default_{each.name}"] = each.default
            yield f"{each.name}=default_{each.name}"
        elif each.default_factory is not MISSING:
            names[f"make_{each.name}"] = each.default_factory
            yield f"{each.name}=make_{each.name}"
        else:
            yield each.name


def _assigned(each: Field[Any]) -> str:
    name = each.name
    value = f"make_{name}() if {name} is make_{name} else {name}" if each.default_factory is not MISSING else name
    return f"of_instance[{name!r}] = {value}"

"""A faster constructor for frozen dataclasses.

The constructor of a frozen dataclass calls ``object.__setattr__`` for each field, which took a quarter of a worker's CPU. This one
puts the values into the instance's dictionary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from functools import wraps
from typing import Any, TypeVar

_T = TypeVar("_T")


def quick(cls: type[_T]) -> type[_T]:
    """Give a frozen dataclass a faster constructor. The class must have neither ``__post_init__`` nor slots."""
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
    """The parameters of the constructor. Their defaults go into ``names``."""
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

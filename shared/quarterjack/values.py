"""Values: dataclasses that the type checker keeps from being changed. A fire makes thirty of them; the SDK has 150 such classes.

``replace`` is that of ``dataclasses``, for all dataclasses. It copies a value in place of reading and assigning each of its fields: a run's
row has more than fifty of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from dataclasses import replace  # the type checker knows its arguments

__all__ = ["replace", "value"]

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(*, kw_only: bool = False, slots: bool = False) -> Callable[[type[_T]], type[_T]]:
    """A dataclass as ``@dataclass(frozen=True)`` to the type checker, whose constructor assigns each field in place of calling for it.

    For all classes that no user sees (docs/adr/0032-plain-dataclasses.md). Its constructor alone is generated: ``dataclass`` compiles
    a text for each method, which was more than half of the time in which the SDK is imported.
    """

    def decorate(given: type[_T]) -> type[_T]:
        made: Any = dataclass(kw_only=kw_only, slots=slots, repr=False, eq=False)(given)
        all_fields = fields(made)
        compared = _values_of(each.name for each in all_fields if each.compare)
        hashed = _values_of(each.name for each in all_fields if (each.compare if each.hash is None else each.hash))
        shown = [each.name for each in all_fields if each.repr]

        def __eq__(self: Any, other: object) -> bool:  # noqa: N807 (a method)
            return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

        def __hash__(self: Any) -> int:  # noqa: N807 (a method)
            return hash(hashed(self))

        def __repr__(self: Any) -> str:  # noqa: N807 (a method)
            return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

        for method in (__eq__, __hash__, __repr__):
            if method.__name__ not in vars(given):
                setattr(made, method.__name__, method)
        if not (slots or hasattr(made, "__post_init__") or not all(each.init for each in all_fields)):
            made.__copied__ = frozenset(each.name for each in all_fields)
        return made  # type: ignore[no-any-return]

    return decorate


def _values_of(names: Iterable[str]) -> Callable[[Any], Any]:
    """Takes the values of these fields."""
    names = tuple(names)
    return attrgetter(*names) if names else lambda _: ()


if not TYPE_CHECKING:

    def replace(value: Any, /, **changes: Any) -> Any:
        """The same with other values of these fields. Raises TypeError for a field that it has not."""
        copied = vars(value.__class__).get("__copied__")
        if copied is None:
            return dataclasses.replace(value, **changes)
        if not copied >= changes.keys():
            raise TypeError(f"{value.__class__.__qualname__} has no field {min(changes.keys() - copied)!r}")
        made, own = object.__new__(value.__class__), value.__dict__
        if len(own) > len(copied):  # properties that were computed from its fields
            own = {name: own[name] for name in copied}
        made.__dict__.update(own, **changes)
        return made

"""Values: dataclasses that the type checker keeps from being changed. A fire makes thirty of them; the SDK has 150 such classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

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
        return made  # type: ignore[no-any-return]

    return decorate


def _values_of(names: Iterable[str]) -> Callable[[Any], Any]:
    """Takes the values of these fields."""
    names = tuple(names)
    return attrgetter(*names) if names else lambda _: ()

"""Values: dataclasses with equality and a hash, which tools that read dataclasses know."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import pytest
from quarterjack import values
from quarterjack.values import value


@dataclass(frozen=True)
class Frozen:
    x: int
    seen: list[int] = field(default_factory=list, init=False)


@value()
class Point:
    x: int
    y: int = 0


@value(kw_only=True)
class Named:
    name: str


def test_values_are_equal_by_their_fields_and_can_be_keys() -> None:
    assert Point(1) == Point(1, 0) != Point(1, 1)
    assert {Point(1), Point(1, 0), Named(name="a"), Named(name="a")} == {Point(1), Named(name="a")}


def test_values_are_dataclasses() -> None:
    assert replace(Point(1), y=2) == Point(1, 2)
    assert [field.name for field in fields(Named)] == ["name"]


@value(slots=True)
class Slotted:
    x: int
    seen: int = field(default=0, compare=False, repr=False)
    more: dict[str, int] = field(default_factory=dict, hash=False)

    def __repr__(self) -> str:
        return f"<{self.x}>"


@value()
class Nothing:
    """Has no field."""


def test_a_class_keeps_its_own_methods_and_leaves_out_the_fields_that_it_says() -> None:
    assert Slotted(1, 2) == Slotted(1, 3)
    assert hash(Slotted(1, 2)) == hash(Slotted(1, 3))
    assert Slotted(1) != Slotted(1, more={"a": 1})
    assert repr(Slotted(1)) == "<1>"
    assert not hasattr(Slotted(1), "__dict__")
    assert repr(Point(1)) == "Point(x=1, y=0)"


def test_values_of_other_classes_are_never_equal() -> None:
    different: object = Point(1)
    assert Nothing() == Nothing() != different
    assert Point(1).__eq__(Named(name="a")) is NotImplemented


def test_only_the_constructor_is_compiled_for_each_class() -> None:
    """The SDK's import has a good hundred of these classes: a compiled method costs 0.1 ms."""
    for method in ("__eq__", "__hash__", "__repr__"):
        assert getattr(Point, method).__code__ is getattr(Named, method).__code__


@value()
class Counted:
    of: tuple[int, ...]
    name: str = "n"

    @cached_property
    def total(self) -> int:
        return sum(self.of)


def test_a_replaced_value_has_nothing_that_was_computed_from_the_former() -> None:
    before = Counted((1, 2))
    assert before.total == 3
    after = values.replace(before, of=(4,))
    assert (after.total, after.name, before) == (4, "n", Counted((1, 2)))


@pytest.mark.parametrize("given", [Point(1), Slotted(1), Frozen(1)])
def test_any_dataclass_is_replaced_and_a_field_that_it_has_not_is_refused(given: Any) -> None:
    assert values.replace(given, x=2) == type(given)(2)
    with pytest.raises(TypeError, match="y2"):
        values.replace(given, y2=1)

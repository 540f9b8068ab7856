"""Values: dataclasses with equality and a hash, which tools that read dataclasses know."""

from __future__ import annotations

from dataclasses import fields, replace

from quarterjack.values import value


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

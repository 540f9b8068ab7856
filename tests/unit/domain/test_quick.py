"""A quick dataclass is what it would be otherwise."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest
from minutehand.domain.quick import quick


@quick
@dataclass(frozen=True, kw_only=True)
class Named:
    """By name alone."""

    name: str
    size: int = 1
    parts: list[int] = field(default_factory=list)


@quick
@dataclass(frozen=True)
class Placed:
    """By place too."""

    x: int
    y: int = 2
    z: int = field(default=3, kw_only=True)


def test_values_and_defaults_are_where_they_were() -> None:
    assert vars(Named(name="a")) == {"name": "a", "size": 1, "parts": []}
    assert vars(Placed(5)) == {"x": 5, "y": 2, "z": 3}
    assert Placed(1, 3, z=4) == Placed(x=1, y=3, z=4)
    assert repr(Placed(1)) == "Placed(x=1, y=2, z=3)"
    assert str(inspect.signature(Placed)) == "(x: 'int', y: 'int' = 2, *, z: 'int' = 3) -> None"


def test_what_a_factory_makes_is_an_instances_own() -> None:
    assert Named(name="a").parts is not Named(name="a").parts
    given = [1]
    assert Named(name="a", parts=given).parts is given


def test_it_stays_frozen_and_comparable() -> None:
    with pytest.raises(FrozenInstanceError):
        Placed(1).x = 2  # type: ignore[misc]
    assert len({Placed(1), Placed(1), Placed(2)}) == 2
    assert replace(Placed(1), y=9) == Placed(1, 9)
    assert pickle.loads(pickle.dumps(Placed(1))) == Placed(1)


@pytest.mark.parametrize("wrong", [{}, {"name": "a", "length": 1}])
def test_what_does_not_fit_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(TypeError, match=r"__init__\(\)"):
        Named(**wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Named("a")  # type: ignore[call-arg]

"""What an annotation says: whether it is typed, when its names are known, and what of it Pydantic takes."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Protocol,
    TypedDict,
    TypeVar,
)

import pytest
from pydantic import BaseModel, ConfigDict, Field
from pydantic import dataclasses as pydantic_dataclasses
from quarterjack import Registry, load
from quarterjack.domain.job import Job
from quarterjack.errors import InvalidInput, JobError
from quarterjack.extras import install_remedy
from quarterjack.payload_types import PayloadType, hints, kind, payload_schema
from typing_extensions import TypeAliasType

if TYPE_CHECKING:
    from decimal import Decimal

ROOT = Path(__file__).parents[3]
T = TypeVar("T")
Json = dict[str, "Json"] | list["Json"] | str | None
Alias = TypeAliasType("Alias", dict[str, "Alias"] | str)  # type: ignore[misc]
Name = NewType("Name", str)


class Color(Enum):
    RED = "red"


@dataclass
class Order:
    id: str


class Lax(BaseModel):
    n: int


class Readable(Protocol):
    def keys(self) -> Any: ...


class Both(NamedTuple):
    a: int


class Page(TypedDict):
    name: str
    tags: NotRequired[list[str]]


class Tree(TypedDict):
    name: str
    child: NotRequired[Tree]


def job_of(function: Callable[..., Any]) -> Job:
    jobs = Registry()
    jobs.job("j")(function)
    (job,) = jobs
    return job


def annotated(annotation: Any) -> Job:
    def function(ctx: Any, payload: Any) -> Any: ...

    function.__annotations__["payload"] = annotation
    return job_of(function)


PLAIN: list[Any] = [
    *(Any, object, None, dict, list, str, int, bool, float, tuple),
    *(dict[str, Any], Mapping[str, int | None], list[dict[str, str]], Sequence[str], str | None, tuple[int, ...]),
    *("dict", "Any", "dict[str, Any]", "Mapping[str, object]", "str", "'dict[str, str]'"),
    *(T, Readable, Json, Name, dict[str, Name]),
]
TYPED: list[Any] = [
    *(Order, Page, Both, Lax, Color, date, Literal["a"], Annotated[int, Field(gt=0)]),
    *(Order | None, list[Order], dict[str, Order], "Order", "list[Order] | None", Mapping[str, date]),
]


@pytest.mark.parametrize("annotation", PLAIN, ids=repr)
def test_jsons_own_types_are_passed_as_they_are(annotation: Any) -> None:
    assert annotated(annotation).payload_type is None


@pytest.mark.parametrize("annotation", TYPED, ids=repr)
def test_all_else_is_typed(annotation: Any) -> None:
    assert annotated(annotation).payload_type is not None
    assert payload_schema(annotated(annotation)) is not None


def test_an_alias_of_json_is_plain() -> None:
    assert hints.is_plain(Alias)


@pytest.mark.parametrize(
    "function",
    [
        lambda ctx, payload: None,
        lambda *given: None,
        functools.partial(lambda more, ctx, payload: None, 1),
    ],
)
def test_what_is_not_annotated_is_passed_as_it_is(function: Callable[..., Any]) -> None:
    assert job_of(function).payload_type is None


def test_the_annotation_of_a_wrapped_function_counts() -> None:
    def place(ctx: Any, payload: Order) -> None: ...

    @functools.wraps(place)
    def wrapper(*given: Any) -> None: ...

    assert job_of(wrapper).payload_type is not None


def test_an_object_that_can_be_called_may_be_annotated() -> None:
    class Placing:
        def __call__(self, ctx: Any, payload: Order) -> None: ...

    kind = job_of(Placing()).payload_type
    assert kind is not None
    assert kind.converted('{"id": "1"}') == Order("1")


def test_the_annotations_of_other_parameters_do_not_matter() -> None:
    def place(ctx: Unknown, payload: Order) -> Unknown: ...  # type: ignore[name-defined]  # noqa: F821

    assert job_of(place).payload_type is not None


# Names.


def test_a_class_of_the_function_around_is_found() -> None:
    @dataclass
    class Local:
        n: int

    jobs = Registry()

    @jobs.job("j")
    def place(ctx: Any, payload: Local) -> None: ...

    (job,) = jobs
    assert job.payload_type is not None
    assert job.payload_type.converted('{"n": 1}') == Local(1)


def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_class_that_follows_its_job_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
from __future__ import annotations
from dataclasses import dataclass
from quarterjack import Registry

registry = Registry()

@registry.job("j")
def place(ctx, payload: Later): ...

@registry.job("plain")
def plain(ctx, payload: Words): ...

@dataclass
class Later:
    n: int

Words = dict[str, str]
"""
    module(tmp_path, monkeypatch, "typed_later", text)
    registry: Any = __import__("typed_later").registry
    assert load("typed_later", registry) is registry
    kinds: dict[str, Any] = {job.name: job.payload_type for job in registry}
    converted = {name: kind.converted('{"n": 1}') for name, kind in kinds.items()}
    assert (converted["j"].n, converted["plain"]) == (1, {"n": 1})


def test_a_class_that_only_type_checkers_see_is_refused_when_all_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
from __future__ import annotations
from typing import TYPE_CHECKING
from quarterjack import Registry

if TYPE_CHECKING:
    from decimal import Decimal
    from typing import Any

registry = Registry()

@registry.job("fine")
def fine(ctx, payload: dict[str, Any]): ...

@registry.job("j")
def place(ctx, payload: Decimal): ...
"""
    module(tmp_path, monkeypatch, "typed_hidden", text)
    registry = __import__("typed_hidden").registry
    expected = r"job='j': its payload's annotation Decimal is not known at run time.*; import it outside of `if TYPE_CHECKING:`"
    with pytest.raises(JobError, match=expected):
        load("typed_hidden", registry)


def test_it_is_refused_at_first_use_where_nothing_is_loaded() -> None:
    def place(ctx: Any, payload: Decimal) -> None: ...

    kind = job_of(place).payload_type
    assert kind is not None
    with pytest.raises(JobError, match="Decimal is not known"):
        kind.converted("1")


def test_a_type_that_nobody_can_check_is_refused_by_name() -> None:
    class Thing:
        pass

    kind = annotated(Thing).payload_type
    assert kind is not None
    with pytest.raises(
        JobError, match=r"job='j': its payload's annotation .*Thing cannot be checked .*; use dataclasses"
    ):
        kind.converted("1")


# Pydantic.


def test_without_pydantic_a_typed_job_is_refused_where_it_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "find_spec", lambda name: None)
    assert annotated(dict[str, Any]).payload_type is None
    with pytest.raises(
        JobError, match=re.escape(f"Order needs Pydantic, which is not installed; {install_remedy('typed')}")
    ):
        annotated(Order)


def test_without_pydantic_an_instance_is_still_a_payload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "find_spec", lambda name: None)
    assert kind.jsonable(Order("1")) == {"id": "1"}
    with pytest.raises(TypeError, match="Object of type date is not JSON serializable"):
        kind.jsonable(date(2026, 1, 1))


DECLARE = """
from dataclasses import dataclass
from quarterjack import Registry, Scheduler
@dataclass
class Order: id: str
jobs = Registry()
@jobs.job("typed")
def typed(ctx, payload: Order): ...
@jobs.job("plain")
def plain(ctx, payload: dict): ...
import sys
before = "pydantic" in sys.modules
jobs.get("typed").payload_type.converted('{"id": "1"}')
print(before, "pydantic" in sys.modules)
"""


def test_pydantic_is_imported_with_the_first_payload() -> None:
    environ = {"PYTHONPATH": str(ROOT / "shared")}
    done = subprocess.run([sys.executable, "-c", DECLARE], capture_output=True, text=True, check=True, env=environ)
    assert done.stdout.split() == ["False", "True"]


def of(annotation: Any) -> PayloadType:
    found = annotated(annotation).payload_type
    assert isinstance(found, PayloadType)
    return found


@pydantic_dataclasses.dataclass
class LaxToo:
    n: int


@dataclass
class Configured:
    __pydantic_config__ = ConfigDict(extra="allow")
    n: int


class StrictModel(BaseModel):
    model_config = ConfigDict(strict=True)
    n: int


@pytest.mark.parametrize("annotation", [Lax, LaxToo, Configured, list[Lax]])
def test_a_class_with_pydantics_configuration_says_itself_how_strict_it_is(annotation: Any) -> None:
    text = '[{"n": "3", "more": 1}]' if annotation == list[Lax] else '{"n": "3", "more": 1}'
    assert of(annotation).converted(text, new=True)


def test_classes_that_name_each_other_in_a_function_are_found() -> None:
    @dataclass
    class Inner:
        n: int

    @dataclass
    class Outer:
        inner: list[Inner]

    jobs = Registry()

    @jobs.job("j")
    def place(ctx: Any, payload: Outer) -> None: ...

    (job,) = jobs
    assert job.payload_type is not None
    assert job.payload_type.converted('{"inner": [{"n": 1}]}') == Outer([Inner(1)])


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Pydantic takes it there")
def test_a_recursive_typed_dict_says_where_to_take_it_from() -> None:
    with pytest.raises(
        JobError, match=r"use `typing_extensions.TypedDict` .*; do that, or annotate the payload with dict"
    ):
        of(Tree).converted("{}")


def test_a_strict_model_is_strict() -> None:
    with pytest.raises(InvalidInput, match=r"payload\.n='3'"):
        of(StrictModel).converted('{"n": "3"}')


def test_a_typed_dict_of_the_standard_library_is_taken_on_every_python() -> None:
    class Leaf(TypedDict, total=False):
        n: int

    class Branch(TypedDict):
        leaves: list[Leaf]
        more: NotRequired[dict[str, Leaf | None]]

    jobs = Registry()

    @jobs.job("j")
    def grow(ctx: Any, payload: Branch) -> None: ...

    (job,) = jobs
    assert job.payload_type is not None
    branch = job.payload_type
    assert branch.converted('{"leaves": [{}, {"n": 1}]}') == {"leaves": [{}, {"n": 1}]}
    with pytest.raises(InvalidInput, match=r"payload\.more\.a\.n='x': does not fit 'j'; give a valid integer"):
        branch.converted('{"leaves": [], "more": {"a": {"n": "x"}}}')
    with pytest.raises(InvalidInput, match=r"payload\.leaves=<missing>"):
        branch.converted("{}")
    schema = branch.schema()
    assert schema is not None
    assert schema["title"] == "Branch"

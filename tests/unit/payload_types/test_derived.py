"""The schema that is published of a type takes whatever the type takes; what it takes beyond that is known, and left to the worker."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from functools import partial
from ipaddress import IPv4Address
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import pytest
from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    SecretStr,
    StringConstraints,
)
from quarterjack import Registry
from quarterjack.errors import InvalidInput
from quarterjack.payload_types import payload_schema
from quarterjack.payload_types.derived import check_of, stripped
from quarterjack.payload_types.kind import payload_fit
from quarterjack.payload_types.schema import PayloadSchema

from tests.support.payload_schemas import changed


@dataclass
class Item:
    sku: str
    qty: int = 1


@dataclass
class Order:
    id: str
    items: list[Item] = field(default_factory=list)
    day: date | None = None
    more: dict[str, int] = field(default_factory=dict)


@dataclass
class Node:
    name: str
    children: list[Node] = field(default_factory=list)


@dataclass
class Leaf:
    kind: Literal["leaf"]
    value: float


@dataclass
class Branch:
    kind: Literal["branch"]
    left: Leaf | Branch
    right: Leaf | Branch


class Page(TypedDict):
    url: str
    depth: NotRequired[int]


class Point(NamedTuple):
    x: int
    y: int = 0


class Letter(BaseModel):
    to: str
    copies: int = Field(default=1, gt=0)
    sent: datetime | None = None
    tags: set[str] = set()


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    a: int
    pin: SecretStr | None = None


class Named(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    a: int = Field(alias="A")


class Aliased(BaseModel):
    a: int = Field(validation_alias=AliasChoices("a", "b"))


class Trimmed(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True, strict=True)
    a: Annotated[str, Field(max_length=2)]


@dataclass
class Keeps:
    letter: Letter
    trimmed: Trimmed | None = None


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Level(IntEnum):
    LOW = 0
    HIGH = 1


class Cats(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dogs(BaseModel):
    kind: Literal["dog"]


TYPES: dict[str, Any] = {
    "int or text": int | Literal["none"],
    "bounded": Annotated[int, Field(ge=-2, lt=5)],
    "bounded float": Annotated[float, Field(gt=0, le=2.5)],
    "step": Annotated[float, Field(multiple_of=0.1)],
    "word": Annotated[str, Field(min_length=2, max_length=4)],
    "pattern": Annotated[str, Field(pattern="^[a-c]+$")],
    "digits": Annotated[str, Field(pattern=r"^\d+$")],
    "trimmed": Annotated[str, StringConstraints(strip_whitespace=True, max_length=2)],
    "lower": Annotated[str, StringConstraints(to_lower=True, pattern="^[a-c]+$")],
    "date": date,
    "datetime": datetime,
    "time": time,
    "timedelta": timedelta,
    "uuid": UUID,
    "decimal": Decimal,
    "bytes": Annotated[bytes, Field(max_length=3)],
    "address": IPv4Address,
    "enum": Size,
    "int enum": Level,
    "one": Literal[1],
    "yes or a": Literal[True, "a"],
    "zero": Literal[0, "b"],
    "set": set[int],
    "small set": Annotated[frozenset[int], Field(min_length=1, max_length=1)],
    "tuple": tuple[int, Literal["a"]],
    "tuples": tuple[date, ...],
    "named tuple": Point,
    "named tuples": list[Point] | None,
    "keys": dict[int, date],
    "few": Annotated[dict[str, Any], Field(max_length=1)],
    "named keys": dict[Literal["a", "b"], int],
    "typed dict": Page,
    "dataclass": Order,
    "tree": Node,
    "union": Leaf | Branch,
    "tagged": Annotated[Leaf | Branch, Field(discriminator="kind")],
    "model": Letter,
    "closed model": Closed,
    "model by name": Named,
    "model by aliases": Aliased,
    "trimming model": Trimmed,
    "dataclass of models": Keeps,
    "models": Annotated[Cats | Dogs, Field(discriminator="kind")],
    "list of models": list[Cats | Dogs],
    "before": Annotated[int, BeforeValidator(lambda value: 1)],
    "plain": Annotated[int, PlainValidator(lambda value: 1)],
}
_WORDS = (
    "a",
    "b",
    "abc",
    " a ",
    "A",
    "3",
    "١",
    "leaf",
    "branch",
    "cat",
    "s",
    "l",
    "2026-12-24",
    "2026-12-24T10:00:00",
    "10:00",
    "1 day",
)
_MORE = ("12345678123456781234567812345678", "127.0.0.1", "true", "", "NaN", "1e5", "ü" * 3)
_NAMES = (
    "id",
    "items",
    "sku",
    "qty",
    "day",
    "name",
    "children",
    "kind",
    "value",
    "left",
    "right",
    "url",
    "depth",
    "x",
    "y",
)
_MORE_NAMES = ("to", "copies", "sent", "tags", "a", "A", "b", "pin", "letter", "trimmed", "lives", "more", "1", "z")


def drawn(rng: random.Random, depth: int = 3) -> Any:
    """Any JSON, of names and words that these types know."""
    kind = rng.randrange(9 if depth else 5)
    if kind == 8:
        return [drawn(rng, depth - 1) for _ in range(rng.randrange(3))]
    if kind >= 5:
        names = rng.sample(_NAMES + _MORE_NAMES, rng.randrange(4))
        return {name: drawn(rng, depth - 1) for name in names}
    return (
        None,
        rng.random() < 0.5,
        rng.randint(-3, 6),
        rng.choice((1.0, 0.0, 2.5, 0.30000000000000004)),
        rng.choice(_WORDS + _MORE),
    )[kind]


SEEDS: dict[str, list[Any]] = {
    "dataclass": [{"id": "1", "items": [{"sku": "a", "qty": 2}], "day": "2026-12-24", "more": {"a": 1}}],
    "tree": [{"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}],
    "union": [{"kind": "branch", "left": {"kind": "leaf", "value": 1}, "right": {"kind": "leaf", "value": 2.5}}],
    "tagged": [{"kind": "branch", "left": {"kind": "leaf", "value": 1}, "right": {"kind": "leaf", "value": 2.5}}],
    "typed dict": [{"url": "u", "depth": 3}],
    "named tuple": [[1, 2], {"x": 1, "y": 2}, [1]],
    "named tuples": [[[1, 2], {"x": 1}], None],
    "model": [{"to": "Ada", "copies": "3", "sent": 1700000000, "tags": ["a", "a"]}],
    "closed model": [{"a": 1, "pin": "1234"}],
    "model by name": [{"a": 1}, {"A": 1}],
    "model by aliases": [{"a": 1}, {"b": 1}],
    "trimming model": [{"a": "  ab  "}],
    "dataclass of models": [{"letter": {"to": "Ada", "copies": 2, "tags": ["a"]}, "trimmed": {"a": "  b  "}}],
    "models": [{"kind": "cat", "lives": "3"}, {"kind": "dog"}],
    "list of models": [[{"kind": "cat", "lives": 3}, {"kind": "dog", "x": 1}]],
    "keys": [{"1": "2026-12-24"}],
    "named keys": [{"a": 1, "b": 2}],
    "tuple": [[1, "a"]],
    "tuples": [["2026-12-24", "2026-12-24"]],
    "enum": ["s", "l"],
    "small set": [[1, 1, 1]],
    "few": [{"a": 1}],
}


def payloads(name: str) -> Iterator[Any]:
    rng = random.Random(len(name))
    for _ in range(400):
        yield drawn(rng)
    for seed in SEEDS.get(name, ()):
        yield seed
        for _ in range(150):
            yield changed(seed, rng, partial(drawn, rng, 1), _NAMES, 0.3)


def job_of(kind: Any) -> Any:
    jobs = Registry()

    def work(ctx: Any, payload: Any) -> None: ...

    work.__annotations__ = {"payload": kind}
    jobs.job("typed")(work)
    (job,) = jobs
    return job


def takes(convert: Callable[[], object]) -> bool:
    try:
        convert()
    except InvalidInput:
        return False
    return True


# What the type refuses and the schema takes, beyond what ``BEYOND`` says: 1.0, an integer to JSON Schema.
BEYOND = {
    "pattern as a note": {"digits", "trimmed", "lower", "trimming model"},
    "format as a note": {
        "date",
        "datetime",
        "time",
        "timedelta",
        "uuid",
        "decimal",
        "bytes",
        "address",
        "tuples",
        "keys",
        "dataclass",
    },
    "converts": {"model", "model by name", "models", "list of models", "dataclass of models", "closed model"},
    "counts once": {"small set", "step", "few"},
    "validator": {"before", "plain"},
    "keys are texts": {"named keys"},
}


@pytest.mark.parametrize("new", [True, False], ids=["new", "stored"])
@pytest.mark.parametrize("name", TYPES)
def test_the_schema_takes_what_the_type_takes(name: str, new: bool) -> None:
    job = job_of(TYPES[name])
    fit = payload_fit(job)
    if name in ("model by name", "model by aliases"):
        assert fit is None, "its fields have several names"
        return
    assert fit is not None
    fit = json.loads(json.dumps(fit))  # as it is published
    schema = check_of(fit, payload_schema(job), new=new)
    assert schema is not None
    check, wrongly, beyond, taken = PayloadSchema(schema, formats=False), [], [], 0
    for payload in payloads(name):
        text = json.dumps(payload)
        by_type = takes(partial(job.payload_type.converted, text, new=new))
        by_schema = check.fits(json.loads(text))
        taken += by_type
        if by_type and not by_schema:
            wrongly.append(payload)
        if by_schema and not by_type and "1.0" not in text and "0.0" not in text:
            beyond.append(payload)
    assert wrongly == [], schema
    assert taken, "the type takes none: the test proves nothing"
    if not any(name in names for names in BEYOND.values()):
        assert beyond == [], schema


def test_a_schema_is_published_twice_only_where_it_is_no_check() -> None:
    assert payload_fit(job_of(Page)) == {"closed": True}
    assert payload_fit(job_of(Node)) == {"closed": True}
    assert (payload_fit(job_of(Letter)) or {}).keys() == {"closed", "schema"}
    assert payload_fit(job_of(dict)) is None


def test_notes_are_left_out() -> None:
    given = {"title": "A", "properties": {"title": {"type": "string", "default": "x", "format": "date"}}, "x-note": 1}
    assert stripped(given) == {"properties": {"title": {"type": "string"}}}


def test_what_is_secret_in_a_model_is_masked() -> None:
    job = job_of(Closed)
    schema = check_of(payload_fit(job) or {}, payload_schema(job), new=True)
    with pytest.raises(InvalidInput, match=r"payload\.pin=\[redacted\]: does not fit the schema of 'place'; give"):
        PayloadSchema(schema, formats=False).check('{"a": 1, "pin": [1234567]}', "place")

"""A payload that does not fit: the path of its field, the value as far as it may be shown, and a remedy."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator
from quarterjack import Redact, Registry
from quarterjack.errors import InvalidInput
from quarterjack.payload_types import PayloadType


class Card(BaseModel):
    number: str = Field(alias="cardNo")

    @field_validator("number")
    @classmethod
    def checked(cls, number: str) -> str:
        if not number.isdigit():
            raise ValueError(f"{number} is not a number")
        return number


class Cash(NamedTuple):
    cents: int


@dataclass
class Order:
    id: str
    pay: Card | Cash | None = None
    tags: dict[str, int] = field(default_factory=dict)
    kind: Literal["small", "large"] = "small"
    secrets: dict[str, int] = field(default_factory=dict)


def kind_of(annotation: Any) -> PayloadType:
    jobs = Registry()

    def place(ctx: Any, payload: Any) -> None: ...

    place.__annotations__["payload"] = annotation
    jobs.job("place")(place)
    (job,) = jobs
    assert isinstance(job.payload_type, PayloadType)
    return job.payload_type


ORDER = kind_of(Order)


def refused(value: Any, **redact: Any) -> InvalidInput:
    with pytest.raises(InvalidInput) as problem:
        ORDER.converted(json.dumps(value), redact=Redact(**redact), new=True)
    return problem.value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"id": 7}, "payload.id=7: does not fit 'place'; give a valid string"),
        ({"id": "1", "tags": {"a": 1, "b": "x"}}, "payload.tags.b='x': does not fit 'place'; give a valid integer"),
        ({"id": "1", "tags": []}, "payload.tags=[]: does not fit 'place'; give an object"),
        ({"id": "1", "kind": "big"}, "payload.kind='big': does not fit 'place'; give 'small' or 'large'"),
        (
            {"id": "1", "pay": {"cardNo": "x7"}},
            "payload.pay.cardNo='x7': does not fit 'place' (x7 is not a number) (wrong, too: payload.pay.cents); correct it",
        ),
        ([], "payload=[]: does not fit 'place'; give an object"),
        ({}, "payload.id=<missing>: 'place' needs it; add it"),
        ({"id": "1", "kid": 1}, "payload.kid=1: 'place' has no such field; leave it out, or correct its name"),
    ],
)
def test_the_words(value: Any, said: str) -> None:
    found = refused(value)
    assert str(found) == said
    assert found.problem
    assert found.remedy


def test_some_more_faults_are_named_and_the_rest_counted() -> None:
    found = refused({"id": 1, "kind": 2, "tags": 3, "pay": 4, "secrets": 5})
    assert found.field == "payload.id"
    assert "(wrong, too: payload.pay, payload.tags, payload.kind and 1 more)" in found.problem


@pytest.mark.parametrize("digits", ["4111111111111111", "41"])
def test_what_the_job_redacts_is_in_no_part_of_the_error(digits: str) -> None:
    found = refused({"id": "1", "pay": {"cardNo": f"{digits}x"}}, fields=("cardNo",))
    assert digits not in str(found) + repr(found.value) + repr(vars(found))
    assert "payload.pay.cardNo=[redacted]" in str(found)


def test_a_pattern_is_masked_also_where_the_text_is_cut() -> None:
    text = "y" * 70 + "4111111111111111" + "y" * 70
    found = refused({"id": [text]}, patterns=(r"\d{16}",))
    assert "4111" not in str(found) + repr(found.value)


def test_the_values_of_usual_secrets_are_masked() -> None:
    found = refused({"id": "1", "secrets": {"api_key": "hunter22"}})
    assert str(found) == "payload.secrets.api_key=[redacted]: does not fit 'place'; give a valid integer"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
shapes = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("id", "pay", "tags", "kind", "secrets", "more"), json_values)
)


@given(shapes | json_values)
def test_whatever_is_given_it_is_converted_or_refused_in_our_words(value: Any) -> None:
    with contextlib.suppress(InvalidInput):
        assert isinstance(ORDER.converted(json.dumps(value), new=True), Order)
        return
    found = refused(value)
    assert found.field == "payload" or found.field.startswith("payload.")
    assert found.problem
    assert found.remedy

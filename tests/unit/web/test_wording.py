"""What a caller who sends JSON is told: the field, its value and a remedy, without words of Python or Pydantic."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import quarterjack
from fastapi.routing import APIRoute
from httpx import Response
from quarterjack import Rule
from quarterjack.errors import ExpressionError
from quarterjack.web import Actor
from quarterjack.web.routes.routing import OF_TENANT
from quarterjack.web.wording import PHRASES, ROUTES, said_by, text_of, wanted

from tests.support.api import BODIES, NIGHTLY, Api, document

WRONG_VALUES: tuple[Any, ...] = (None, True, 1.5, -3, "x y", [1], {"a": 1}, 10**20, "2026-01-01T00:00:00")
WRONG_WORDS = ("", "x y", "-1", "1e9", "2026-01-01T00:00:00", "%")
WRONG_SEGMENTS = ("x%20y", "zz", "%00", "a" * 900, "!")
FOREIGN = re.compile(
    r"\b(None|True|False|str|dict|timedelta|Scheduler|aware|tzinfo|(?<!on_full, )strict)\b|\w\(\)|=\(|Input should|String should|unable to"
)
WITHOUT_FIELD = {"unauthenticated", "forbidden", "too-many-requests", "unavailable", "no-such-route"}


def resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        schema = document()["components"]["schemas"][schema["$ref"].split("/")[-1]]
    return resolved(schema["anyOf"][0]) if "anyOf" in schema else schema


def wrong_bodies(operation: Mapping[str, Any]) -> Iterator[Any]:
    """What is not an object, and an object with one wrong value at each of its places."""
    good: dict[str, Any] = BODIES.get(operation["operationId"], {})
    for content in operation.get("requestBody", {}).get("content", {}).values():
        yield from WRONG_VALUES
        for name, about in resolved(content["schema"]).get("properties", {}).items():
            below = good.get(name)
            for wrong in WRONG_VALUES:
                yield good | {name: wrong}
                for inner in resolved(about).get("properties", {}):
                    yield good | {name: {**(below if isinstance(below, dict) else {}), inner: wrong}}


def filled(path: str, parts: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda part: parts.get(part[1], "x"), path)


def refusals() -> list[tuple[str, Response]]:  # noqa: C901 (one loop for each part of a request)
    """The answers to requests that are wrong in one place, each of which says what was asked."""
    api = Api(actor=Actor(name="alice@acme", operator=True))
    api.put("/schedules/nightly", NIGHTLY, 201)
    run = api.post("/runs", {"job": "fail", "payload": {}}, 201)["url_id"]
    api.harness.deploy("1.4")
    api.harness.advance(minutes=3)
    right = {"tenant": "default", "name": "nightly", "run": run, "holder": "default"}
    found = list[tuple[str, Response]]()

    def ask(method: str, path: str, **content: Any) -> None:
        answer = api.client.request(method.upper(), path, **content)
        if answer.status_code >= 400:
            found.append((f"{method} {path} {str(content)[:200]}", answer))

    for path, operations in document()["paths"].items():
        for method, operation in operations.items():
            address = filled(path, right)
            for body in wrong_bodies(operation):
                ask(method, address, json=body)
            for one in operation.get("parameters", ()):
                if one["in"] == "query":
                    for wrong in WRONG_WORDS:
                        ask(method, address, params={one["name"]: wrong})
                if one["in"] == "path":
                    for segment in WRONG_SEGMENTS:
                        ask(method, filled(path, right | {one["name"]: segment}))
                if one["in"] == "header":
                    for wrong in ("x y", "zz"):
                        ask(method, address, headers={one["name"]: wrong})
    assert len(found) > 1_500
    return found


def test_every_refusal_has_a_code_a_field_and_a_remedy_in_words_of_the_api() -> None:
    """One test, because the requests take most of its time."""
    refused = refusals()
    assert {asked for asked, answer in refused if answer.status_code >= 500} == set()
    said = [(asked, answer.json()) for asked, answer in refused]
    assert [(asked, one) for asked, one in said if not one.get("remedy")] == []
    assert [(asked, one) for asked, one in said if "field" not in one and one["code"] not in WITHOUT_FIELD] == []
    texts = {text for _, one in said for text in (one["remedy"], one["detail"])}
    assert sorted(text for text in texts if FOREIGN.search(text)) == []


def test_every_phrase_that_is_said_otherwise_is_still_said() -> None:
    """By the sources, or put together by a rule of which a field is wrong."""
    sources = Path(quarterjack.__file__).parent.rglob("*.py")
    text = "".join(path.read_text(encoding="utf-8") for path in sources if path.name != "wording.py")
    for wrong in ({"calendar": 1}, {"exclude": "x"}, {"gap": 1}, {"repeated": 1}):
        with pytest.raises(ExpressionError) as refused:
            Rule(expression="0 1 * * *", **wrong)
        text += str(refused.value)
    assert {phrase for phrase in PHRASES if phrase not in text} == set()


def test_the_routes_that_remedies_name_exist() -> None:
    there = {
        f"{method} {route.path.removeprefix(OF_TENANT)}"
        for route in Api().app.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    assert set(ROUTES.values()) <= there


def test_a_flag_is_given_as_json_has_it() -> None:
    assert text_of("pass allow_repeat=True to run it again") == 'give "allow_repeat": true to run it again'


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("name='a b': there is none; list them", ("name", "a b", "list them")),
        ('name="it\'s": there is none', ("name", "it's", None)),
        ("tenant='x' has no profile: so it is; create one", ("tenant", "x", "create one")),
        (
            "expected_version=3: it has 4; read it again, then decide",
            ("expected_version", "3", "read it again, then decide"),
        ),
        ("idempotency_key: run a exists; use another key", ("idempotency_key", None, "use another key")),
        ("the agenda did not answer; try again", (None, None, "try again")),
        ("it failed", (None, None, None)),
    ],
)
def test_the_parts_of_an_error_are_found_in_its_text(text: str, parts: tuple[str | None, ...]) -> None:
    said = said_by(text)
    assert (said.field, said.value, said.remedy) == parts


def test_a_pattern_is_said_in_words() -> None:
    pattern = r"^(!\.\.?|[A-Za-z0-9._:@~-]{1,200})$"
    fault = {"type": "string_pattern_mismatch", "ctx": {"pattern": pattern}, "msg": "?"}
    assert wanted(fault) == "1 to 200 characters of A-Z a-z 0-9 . _ : @ ~ -"
    assert wanted(fault | {"ctx": {"pattern": "a|b"}}) == "a text that matches a|b"


def test_a_length_is_said_in_words() -> None:
    fault = {"type": "string_too_short", "ctx": {"min_length": 1}, "msg": "String should have at least 1 character"}
    assert wanted(fault) == "at least 1 character(s)"
    fault = {
        "type": "string_too_long",
        "ctx": {"max_length": 1_000},
        "msg": "String should have at most 1000 characters",
    }
    assert wanted(fault) == "at most 1,000 characters"

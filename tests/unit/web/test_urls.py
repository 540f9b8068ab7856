from __future__ import annotations

from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from quarterjack.domain.names import parse_run_id
from quarterjack.errors import InvalidInput
from quarterjack.web.urls import (
    cursor_in_url,
    cursor_of_url,
    name_in_url,
    name_of_url,
    run_in_url,
    run_of_url,
)

from tests.support.api import Api

NAMES = st.from_regex(r"[A-Za-z0-9._:@/-]{1,200}", fullmatch=True)
TENANTS = st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True)
KEYS = st.from_regex(r"[A-Za-z0-9]{1,64}(~[A-Za-z0-9._:@/-]{1,200})?", fullmatch=True)


def path_of(*segments: str) -> str:
    """The path that a server gets for these segments, after a client has resolved and decoded it."""
    address = urljoin("https://host/v1/tenants/", "/".join(segments))
    return urlsplit(address).path


@given(TENANTS, NAMES)
@example(".", "..")
@example("..", ".")
@example("!x".replace("!", "_"), "/.")
@example("t", "a//b/")
def test_every_name_comes_back(tenant: str, name: str) -> None:
    path = path_of(name_in_url(tenant), "schedules", name_in_url(name))
    assert path.count("/") == 5
    *_, first, _, second = path.split("/")
    assert (name_of_url(first), name_of_url(second)) == (tenant, name)


@given(NAMES, NAMES)
@example("/.", ".")
@example("~".replace("~", "/"), "..")
def test_two_names_have_two_addresses(one: str, other: str) -> None:
    assert (name_in_url(one) == name_in_url(other)) is (one == other)


@given(TENANTS, NAMES, st.booleans(), KEYS)
def test_every_run_comes_back(tenant: str, name: str, once: bool, key: str) -> None:
    run_id = f"{tenant}/{'~' if once else ''}{name}#{key}"
    parse_run_id(run_id)
    assert run_of_url(run_in_url(run_id)) == run_id
    assert path_of(run_in_url(run_id)) == f"/v1/tenants/{run_in_url(run_id)}"


@given(st.text(max_size=30))
def test_a_foreign_text_is_refused(text: str) -> None:
    try:
        found = run_of_url(text)
    except InvalidInput:
        return
    assert run_in_url(found) == text


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=40))
def test_every_cursor_comes_back(cursor: str) -> None:
    assert cursor_of_url(cursor_in_url(cursor)) == cursor


@pytest.mark.parametrize("name", ["a/b", ".", "..", "a:b@c", "/", "//", "-", "x" * 200, "a/../b", "./a", "A.b_c"])
def test_a_schedule_of_any_name_has_its_routes(name: str) -> None:
    api = Api()
    made = api.post("/schedules", {"name": name, "job": "greet", "expression": "0 * * * *"}, 201)
    assert made["name"] == name
    assert api.get(f"/schedules/{name_in_url(name)}")["name"] == name
    run = api.post(f"/schedules/{name_in_url(name)}/runs", status=201)
    assert api.get(f"/runs/{run['url_id']}")["id"] == run["id"]


def test_the_location_of_what_was_made_is_its_address() -> None:
    api = Api()
    made: Any = api.ask("POST", "/schedules", {"name": "a/b", "job": "greet", "expression": "0 * * * *"})
    assert made.headers["location"] == "/v1/tenants/default/schedules/a~b"
    assert api.client.get(made.headers["location"]).json() == made.json()
    run = api.ask("POST", "/runs", {"job": "greet", "payload": {"to": "Ada"}})
    assert api.client.get(run.headers["location"]).json()["id"] == run.json()["id"]

from __future__ import annotations

import inspect
import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from quarterjack import errors
from quarterjack.errors import ExpressionError, InvalidInput, QuarterjackError, Unavailable
from quarterjack.sdk.session import over
from quarterjack.testing import Detail, Hook
from quarterjack.web.error_kinds import KINDS, kind_of
from quarterjack.web.wording import shown

from tests.support.api import NIGHTLY, Api


def all_errors() -> list[type[QuarterjackError]]:
    return [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, QuarterjackError)]


def test_every_error_has_its_line_in_the_table() -> None:
    assert set(KINDS) == set(all_errors())


def test_a_code_has_one_status_and_one_title() -> None:
    kinds: dict[str, set[int]] = {}
    for kind in KINDS.values():
        kinds.setdefault(kind.code, set()).add(kind.status)
    assert {code: statuses for code, statuses in kinds.items() if len(statuses) > 1} == {}
    assert {kind.status for kind in KINDS.values() if kind.ours} == {500}


def test_a_class_that_the_table_lacks_is_as_its_parent() -> None:
    class OtherError(errors.Conflict):
        pass

    assert kind_of(OtherError("x")).code == "conflict"


def test_an_invalid_argument_is_named_with_its_remedy() -> None:
    status, said = Api().problem("PUT", "/schedules/nightly", NIGHTLY | {"timezone": "Europe/Berlim"})
    assert (status, said["code"], said["field"], said["value"]) == (
        422,
        "invalid-expression",
        "timezone",
        "Europe/Berlim",
    )
    assert "Europe/Berlin" in said["remedy"]
    assert said["type"] == "urn:quarterjack:problem:invalid-expression"


def test_a_fault_in_an_expression_has_its_place() -> None:
    _, said = Api().problem("PUT", "/schedules/nightly", NIGHTLY | {"expression": "0 25 * * *"})
    assert (said["field"], said["position"]) == ("expression", 2)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"rule": {"window": -1}}, "rule.window"),
        ({"retry": {"max_attempts": 0}}, "retry.max_attempts"),
        ({"retry": {"attempts": 2}}, "retry.attempts"),
        ({"overlap": "sometimes"}, "overlap"),
        ({"jobs": "greet"}, "jobs"),
        ({"paused": True}, "paused"),
        ({"tags": {"": "x"}}, "tags"),
        ({"tags": []}, "tags"),
        ({"tags": ""}, "tags"),
        ({"tags": False}, "tags"),
        ({"rule": []}, "rule"),
        ({"rule": ""}, "rule"),
        ({"rule": False}, "rule"),
        ({"job": None}, "job"),
    ],
)
def test_a_wrong_word_of_a_definition_is_named_by_its_path(change: dict[str, Any], field: str) -> None:
    api = Api()
    status, said = api.problem("PUT", "/schedules/nightly", NIGHTLY | change)
    assert (status, said["field"]) == (422, field)
    assert said["remedy"]
    assert api.get("/schedules")["items"] == []


def test_all_faults_of_a_request_are_named() -> None:
    status, said = Api().problem("POST", "/runs", {"jop": "greet", "delay": "1", "payload": 3})
    assert (status, said["code"]) == (422, "invalid-input")
    assert {said["field"], *(one["field"] for one in said["errors"])} == {"job", "delay", "jop"}


def test_an_unknown_condition_is_refused() -> None:
    """A mistyped filter of an act on many would widen it."""
    api = Api()
    assert api.problem("GET", "/schedules?jop=greet")[1]["field"] == "jop"
    assert api.problem("POST", "/bulk", {"action": "delete", "filter": {"prefx": "a"}})[1]["field"] == "filter.prefx"
    assert api.problem("POST", "/bulk", {"action": "delete", "filter": {}})[1]["field"] == "prefix"
    assert api.problem("DELETE", "/schedules/x?drian=true")[1]["field"] == "drian"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"job": "greet", "job": "fail"}', "occurs twice"),
        ("{", "not JSON"),
        ("[" * 100_000, "nested too deep"),
        ("\x00", "not JSON"),
    ],
)
def test_a_body_that_is_no_json_is_a_400(content: str, words: str) -> None:
    headers = {"Content-Type": "application/json"}
    answer = Api().client.post("/v1/tenants/default/runs", content=content, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    assert words in answer.json()["detail"]


def test_nothing_is_there() -> None:
    api = Api()
    assert api.problem("GET", "/schedules/none")[1]["code"] == "not-found"
    assert api.problem("GET", "/nothing")[1]["code"] == "no-such-route"
    status, said = api.problem("DELETE", "/schedules")
    assert (status, said["code"]) == (405, "method-not-allowed")
    assert api.problem("GET", "/runs/AAAA")[0] == 422


class Outage(Hook):
    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        raise Unavailable("DynamoDB is away")


def test_an_outage_says_when_to_come_again() -> None:
    api = Api()
    away = over(api.scheduler, replace(api.scheduler.session, services=api.harness.memory.connect(Outage())))
    answer = Api(scheduler=away).ask("GET", "/schedules/nightly")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")


def test_an_error_that_nobody_foresaw_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Hook):
        def before_call(self, operation: str, detail: Detail) -> Collection[int]:
            raise ZeroDivisionError("secret")

    whole = Api().scheduler
    broken = over(whole, replace(whole.session, services=Api().harness.memory.connect(Broken())))
    status, said = Api(scheduler=broken).problem("GET", "/schedules/nightly")
    assert (status, said["code"]) == (500, "internal")
    assert "secret" not in json.dumps(said)
    assert "api.failed" in caplog.text


def test_a_value_is_cut() -> None:
    assert shown("x" * 200) == "x" * 79 + "…"
    assert shown({"a": "x" * 200}) == json.dumps({"a": "x" * 200})[:79] + "…"
    assert (shown(None), shown(3), shown(True), shown(float("nan"))) == (None, 3, True, "nan")
    assert isinstance(ExpressionError("a", 1, "b", "c"), InvalidInput)


def test_an_address_says_all_the_methods_that_it_takes() -> None:
    answer = Api().ask("DELETE", "/schedules")
    assert answer.headers["allow"] == "GET, HEAD, POST"
    said = answer.json()
    assert (said["field"], said["value"], said["remedy"]) == ("method", "DELETE", "use GET or HEAD or POST")


def test_a_head_is_a_get_without_a_body() -> None:
    api = Api()
    api.put("/schedules/nightly", NIGHTLY, 201)
    for path in ("/schedules", "/schedules/nightly", "/schedules/none", "/runs?limit=x"):
        read, head = api.ask("GET", path), api.ask("HEAD", path)
        assert head.content == b""
        assert (head.status_code, dict(head.headers)) == (read.status_code, dict(read.headers)), path
    assert api.ask("HEAD", "/schedules/nightly/pause").status_code == 405


@pytest.mark.parametrize("coding", ["gzip", "br", "GZIP", "identity, gzip"])
def test_an_encoded_body_is_refused(coding: str) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": coding}
    answer = Api().client.post("/v1/tenants/default/runs", content=b"\x1f\x8b", headers=headers)
    said = answer.json()
    assert (answer.status_code, said["field"], said["value"]) == (415, "Content-Encoding", coding)
    assert answer.headers["accept-encoding"] == "identity"
    headers["Content-Encoding"] = "identity"
    assert (
        Api().client.post("/v1/tenants/default/runs", content=b'{"job": "greet"}', headers=headers).status_code == 201
    )


def test_a_body_that_is_not_declared_as_json_names_the_header() -> None:
    answer = Api().client.post("/v1/tenants/default/runs", content=b"{}", headers={"Content-Type": "text/plain"})
    assert (answer.status_code, answer.json()["field"], answer.json()["value"]) == (415, "Content-Type", "text/plain")

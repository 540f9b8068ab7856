"""The OpenAPI document: complete, with examples that work; and what loads the API."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from quarterjack import Scheduler
from quarterjack.domain.names import callback_token
from quarterjack.domain.pipelines.reading import TASK_WORDS
from quarterjack.sdk.tenants.tenants import Tenants
from quarterjack.web import Actor
from quarterjack.web.fields import DEFINITION, PATCH
from quarterjack.web.urls import run_in_url

from tests.support.api import NIGHTLY, Api, AsgiClient
from tests.support.api import document as made_document

ROOT = Path(__file__).parents[3]
WEB = ROOT / "shared" / "quarterjack" / "web"
# Methods that no route calls, and why.
ELSEWHERE = {
    "acting_as": "the caller of each request",
    "with_caller": "likewise",
    "with_tenant": "the tenant of each address",
    "strictly": "an option of the server",
    "wait_for": "GET /runs/{run}?wait=",
    "last_runs": "GET /schedules/{name}/runs of each; the console's own strips",
    "list_running": "GET /runs?state=RUNNING",
    "compare_schedule": "POST /declarations/plan with one schedule",
    "update_schedule": "PATCH merges, and replaces by upsert_schedule",
    "upsert_pipeline": "PUT /schedules/{name} with tasks",
    "submit_all": "POST /batches, whose items are documents: submit_documents",
    "archive": "a stream without an end, which a request is not",
    "verify_audit": "an auditor's long work",
    "resend": "an operator's long work, of the installation",
    "rebuild_history": "an operator's long work, of the installation",
}

# Of ``Tenants``. Values of secrets do not travel by HTTP; an erasure takes hours, and is confirmed at a terminal.
NOT_BY_HTTP = {
    "acting_as",
    "with_caller",
    "set_secret",
    "delete_secret",
    "secrets",
    "erase",
    "erasure",
    "count_erasure",
    # A file of any size, and all schedules of a tenant: the command line's.
    "dump",
    "load",
    "end_schedules",
}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return made_document()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        yield from ((f"{method.upper()} {path}", operation) for method, operation in methods.items())


def test_every_operation_has_a_name_a_description_and_problems(document: dict[str, Any]) -> None:
    found = dict(operations(document))
    names = [operation["operationId"] for operation in found.values()]
    assert len(set(names)) == len(names) > 45
    for place, operation in found.items():
        assert operation["description"], place
        if place != "GET /healthz":
            problem = operation["responses"]["default"]["content"]["application/problem+json"]
            assert problem["schema"] == {"$ref": "#/components/schemas/Problem"}
            assert operation["security"] == [{"bearer": []}]


def test_every_success_but_an_empty_one_has_a_schema(document: dict[str, Any]) -> None:
    for place, operation in operations(document):
        for status, answer in operation["responses"].items():
            if status.startswith("2") and status != "204":
                assert answer["content"]["application/json"]["schema"], (place, status)


def test_every_body_has_an_example(document: dict[str, Any]) -> None:
    for place, operation in operations(document):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            assert "examples" in str(_resolved(content["schema"], document)), place


def _resolved(schema: dict[str, Any], document: dict[str, Any]) -> Any:
    if "$ref" in schema:
        return document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    variants = [] if "examples" in schema else schema.get("anyOf", [])
    return [_resolved(one, document) for one in variants] or schema


def test_the_examples_of_schedules_are_accepted(document: dict[str, Any]) -> None:
    api = Api()
    api.scheduler = api.scheduler.strictly(strict=False)
    lenient = Api(scheduler=api.scheduler)
    for method, path, address in (("put", "/schedules/{name}", "/schedules/a"), ("post", "/schedules", "/schedules")):
        body = document["paths"][f"/v1/tenants/{{tenant}}{path}"][method]["requestBody"]["content"]["application/json"]
        for example in body["schema"]["examples"]:
            assert lenient.ask(method.upper(), address, example).status_code == 201


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert not re.search(r'"(?:ge|le|gt|lt)": [-0-9]', json.dumps(document)), "no word of JSON Schema"

    def references(part: Any) -> Iterator[str]:
        if isinstance(part, dict):
            if isinstance(part.get("$ref"), str):
                yield part["$ref"]
            for value in part.values():
                yield from references(value)
        elif isinstance(part, list):
            for value in part:
                yield from references(value)

    found = set(references(document))
    assert {one for one in found if one.removeprefix("#/components/schemas/") not in schemas} == set()


def test_the_fields_of_views_are_described(document: dict[str, Any]) -> None:
    run = document["components"]["schemas"]["Run"]["properties"]
    assert [name for name, field in run.items() if not field.get("description")] == []
    assert run["due"]["description"] == "UTC"


def test_every_method_of_the_scheduler_has_a_route_or_a_reason() -> None:
    called = set[str]()
    for place in WEB.rglob("*.py"):
        for node in ast.walk(ast.parse(place.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
                called |= {node.attr} if node.value.attr == "scheduler" else set()
    public = {name for name, _ in inspect.getmembers(Scheduler, inspect.isfunction) if not name.startswith("_")}
    assert public - called == set(ELSEWHERE)


def test_a_route_keeps_no_rule() -> None:
    """It may refuse only what has no place in a call of the SDK: the form of a request. Adapters are out of its reach."""
    imported = {
        node.module or ""
        for place in (WEB / "routes").glob("*.py")
        for node in ast.walk(ast.parse(place.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
    }
    rooms = {name.split(".")[1] for name in imported if name.startswith("quarterjack.")}
    assert rooms <= {"apply", "doctor", "domain", "errors", "sdk", "state", "timing", "web"}


def test_every_method_of_tenants_has_a_route_or_a_reason() -> None:
    source = (WEB / "routes" / "operators.py").read_text(encoding="utf-8")
    public = {name for name, _ in inspect.getmembers(Tenants, inspect.isfunction) if not name.startswith("_")}
    assert {name for name in public if f"call.tenants.{name}(" not in source} == NOT_BY_HTTP


def loaded(code: str) -> set[str]:
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "shared"), str(ROOT)])}
    program = f"{code}\nimport sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environ)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "from quarterjack import Scheduler, AsyncScheduler",
        "import quarterjack.daemon.worker_process, quarterjack.daemon.roles",
        "import quarterjack.cli.app, quarterjack.cli.installation.local, quarterjack.cli.installation.processes",
    ],
)
def test_nothing_but_the_server_loads_the_framework(code: str) -> None:
    assert not loaded(code) & {"fastapi", "starlette", "uvicorn"}


def test_no_route_is_out_of_the_document(document: dict[str, Any]) -> None:
    routes = [route for route in Api().app.routes if isinstance(route, APIRoute)]
    assert {route.path for route in routes} - set(document["paths"]) <= {"/openapi.json"}


# As strict as the server.


def _numbers(schema: dict[str, Any], *path: str) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """The numbers of a definition, each by the names that lead to it."""
    for name, said in schema.get("properties", {}).items():
        if said.get("type") in ("integer", "number"):
            yield (*path, name), said
        yield from _numbers(said, *path, name)


def _status(path: tuple[str, ...], value: Any) -> int:
    body = value
    for name in reversed(path):
        body = {name: body}
    if path[0] == "flow":  # it limits something, and a burst is part of what may start a minute
        body["flow"] = {"per_minute": 6_000, **body["flow"]}
    return Api().ask("PUT", "/schedules/n", NIGHTLY | body).status_code


def test_numbers_of_a_definition_have_the_bounds_of_the_server() -> None:
    found = dict(_numbers(dict(DEFINITION)))
    assert len(found) > 13
    for path, said in found.items():
        step = 1 if said["type"] == "integer" else 0.001
        for bound, outside in ((said["minimum"], -step), (said["maximum"], step)):
            assert (_status(path, bound), _status(path, bound + outside)) == (201, 422), (path, bound)


TOPIC = "arn:aws:sns:eu-central-1:123456789012:ops"
PLACES = ["", "x", "job:", "job:greet", "job:a b", TOPIC, f"{TOPIC}.fifo", f"{TOPIC}!", TOPIC.replace("123", "12")]


@pytest.mark.parametrize("place", PLACES)
def test_a_place_for_notices_is_legal_where_it_is_accepted(place: str) -> None:
    pattern = DEFINITION["properties"]["on_failure"]["pattern"]
    assert (_status(("on_failure",), place) == 201) == (re.search(pattern, place) is not None)


def test_the_words_of_tasks_are_those_that_are_read() -> None:
    tasks = DEFINITION["properties"]["tasks"]["additionalProperties"]
    assert (tuple(tasks["properties"]), tasks["additionalProperties"]) == (TASK_WORDS, False)


def test_a_patch_has_the_types_of_the_definition() -> None:
    """Of an object it may have a part; null removes a field."""
    assert PATCH["properties"].keys() == DEFINITION["properties"].keys()
    api = Api()
    api.put("/schedules/n", NIGHTLY, 201)
    for name, said in PATCH["properties"].items():
        if name != "payload":
            kinds = json.dumps(said)
            wrong: Any = "x" if said.get("type") or '"array"' in kinds else {}
            assert ("null" in kinds) is (name != "job"), name  # every schedule has a job
            assert api.problem("PATCH", "/schedules/n", {name: wrong})[0] == 422, name


# Examples.


def _example_of(schema: dict[str, Any], document: dict[str, Any]) -> Any:
    """The example of a body: its own, or those of its fields together with what else it needs."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema and "properties" not in schema:
        return _example_of(next(one for one in schema["anyOf"] if one.get("type") != "null"), document)
    if schema.get("examples"):
        return schema["examples"][0]
    fields = schema.get("properties", {})
    found = {name: field["examples"][0] for name, field in fields.items() if field.get("examples")}
    assert set(schema.get("required", ())) <= set(found), "a field that has to be there has no example"
    return found


def test_the_example_of_every_body_is_accepted(document: dict[str, Any]) -> None:
    """What it names need not be there; that it is read is what an example promises."""
    api = Api(actor=Actor(name="boss@acme", operator=True))
    api.scheduler.create_schedule("a", "greet", "0 3 * * *", payload={"to": "Ada"})
    lenient = Api(scheduler=api.scheduler.strictly(strict=False), actor=Actor(name="boss@acme", operator=True))
    lenient.scheduler = api.scheduler
    asked = 0
    for principal in ("iam:*", "app:boss@acme"):
        api.harness.tenants.grant("default", principal, "admin")
    waiting = [api.scheduler.submit("greet", {"to": "Eve"}, delay=3_600) for _ in range(10)]
    api.scheduler.upsert_schedule("p", "pipeline:p", "manual", tasks={"report.mail": {"job": "greet", "payload": {}}})
    with_tasks = api.scheduler.trigger("p")
    api.scheduler.cancel_run(with_tasks.id)
    # Profiles and grants last: they change what the others may.
    for place, operation in sorted(operations(document), key=lambda one: one[1]["tags"] == ["operators"]):
        method, path = place.split(" ", 1)
        for kind, content in operation.get("requestBody", {}).get("content", {}).items():
            waits = with_tasks if "tasks" in path else waiting.pop() if "{run}" in path else waiting[0]
            names = {"tenant": "default", "name": "a", "run": run_in_url(waits.id), "backfill": "b", "key": "crm.1"}
            names |= {"task": "report.mail", "version": "1.4"}
            names["token"] = callback_token(waits.id, "approval")
            body = json.dumps(_example_of(content["schema"], document))
            answer = lenient.client.request(method, path.format(**names), content=body, headers={"Content-Type": kind})
            asked += 1
            assert answer.status_code in (200, 201, 202, 204, 403, 404, 409, 412), (place, body, answer.text)
    assert asked > 20


def test_refusals_tags_and_servers_are_told(document: dict[str, Any]) -> None:
    told = {one["name"] for one in document["tags"] if one["description"]}
    for place, operation in operations(document):
        assert set(operation["tags"]) <= told, place
        if place != "GET /healthz":
            statuses = set(operation["responses"])
            assert {"401", "403", "404", "422", "429"} <= statuses, place
            assert "requestBody" not in operation or {"400", "413", "415"} <= statuses, place
    assert document["servers"] == [{"url": "/", "description": "the server of this document"}]


def test_the_document_of_a_mounted_application_names_where_it_is() -> None:
    outer = FastAPI()
    outer.mount("/jobs", Api().app)
    assert AsgiClient(outer, {}).get("/jobs/openapi.json").json()["servers"][0]["url"] == "/jobs"

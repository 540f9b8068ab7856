"""``quarterjack serve`` on the local cloud, asked over HTTP by requests that are generated from the document that it serves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from hypothesis import Phase, assume, given, settings
from quarterjack.local.cloud import LocalCloud

from tests.support.api import NIGHTLY, document
from tests.support.conformance import MODES, checks, generation, lists_for_texts, operations, quietly, schemathesis
from tests.support.installation.serving import running_server
from tests.support.parts import in_its_turn

pytestmark = [pytest.mark.check, pytest.mark.cloud]

DOCUMENT = document()
# A third of them, another one every day: tests/unit/web/test_conformance.py asks all of them each time, without a server between.
OPERATIONS = [each for each in operations(DOCUMENT) if in_its_turn(" ".join(each), 3)]
PATIENCE = 60  # seconds for an answer, instead of schemathesis's 10: what is tested is the answer, also where the services are slow
FOUND = [Phase.generate]  # a request that fails is not shrunk: tens of further ones, each of which may wait as long


@dataclass(frozen=True, kw_only=True)
class Served:
    """A server with a schedule and a run that waits, and the words for both in addresses."""

    url: str
    headers: dict[str, str]
    known: dict[str, str]
    schema: Any


@pytest.fixture(scope="module")
def served(local_cloud: LocalCloud) -> Iterator[Served]:
    with running_server(local_cloud) as said:
        headers = {"Authorization": f"Bearer {said['key']}"}
        with httpx.Client(base_url=said["url"], headers=headers, timeout=PATIENCE, trust_env=False) as client:
            base = "/v1/tenants/default"
            assert client.put(f"{base}/schedules/hello~x", json=NIGHTLY).status_code == 201
            run = client.post(f"{base}/runs", json={"job": "greet", "delay": 1_000_000}).json()["url_id"]
        known = {"tenant": "default", "name": "hello~x", "run": run}
        schema = schemathesis().openapi.from_url(f"{said['url']}/openapi.json")
        yield Served(url=said["url"], headers=headers, known=known, schema=schema)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_answers_over_http_are_as_the_document_says(served: Served, method: str, path: str, mode: str) -> None:
    @given(case=served.schema[path][method].as_strategy(generation_mode=generation(mode)))
    @settings(quietly(4), phases=FOUND)
    def asked(case: Any) -> None:
        if mode == "positive":
            case.path_parameters |= {
                name: served.known[name] for name in served.known.keys() & case.path_parameters.keys()
            }
            if "wait" in (case.query or {}):
                case.query["wait"] = 0
        assume(mode == "positive" or not lists_for_texts(case, DOCUMENT))
        answer = case.call(headers=served.headers, timeout=PATIENCE)
        case.validate_response(answer, headers=served.headers, checks=checks(answer.status_code))

    asked()


def test_sequences_of_requests_over_http_meet_no_fault(served: Served) -> None:
    class Sequences(served.schema.as_state_machine()):  # type: ignore[misc]
        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            case.path_parameters["tenant"] = "default"
            return {"headers": served.headers, "timeout": PATIENCE}

        def validate_response(self, response: Any, case: Any, **given: Any) -> None:
            case.validate_response(response, headers=served.headers, checks=checks()[:-2])

    Sequences.run(settings=settings(quietly(5), stateful_step_count=6, phases=FOUND))

"""A typed client that a generator makes from the document of the HTTP API, against ``quarterjack serve`` on the local cloud."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from httpx import Timeout
from quarterjack.local.cloud import LocalCloud
from quarterjack.web.app import openapi_document

from tests.support.api import Api
from tests.support.generated_client import PACKAGE, generate, importable
from tests.support.installation.serving import running_server

pytestmark = [pytest.mark.check, pytest.mark.cloud]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What the generator said. The client can be imported."""
    folder = tmp_path_factory.mktemp("client")
    said = generate(openapi_document(Api().app), folder)
    with importable(folder):
        yield said


@pytest.fixture
def client(generated: str, local_cloud: LocalCloud) -> Iterator[Any]:
    with running_server(local_cloud) as said:
        made = import_module(PACKAGE).AuthenticatedClient(
            base_url=said["url"], token=said["key"], httpx_args={"trust_env": False}, timeout=Timeout(60)
        )
        with made:
            yield made


def function(path: str) -> Any:
    return import_module(f"{PACKAGE}.api.{path}").sync


def test_the_generator_understands_the_whole_document(generated: str) -> None:
    assert "arning" not in generated, generated


def test_a_schedule_is_made_read_paused_and_deleted_and_a_run_submitted(client: Any) -> None:
    models = import_module(f"{PACKAGE}.models")
    body = models.CreateScheduleBody.from_dict(
        {"name": "reports/nightly", "job": "reports.nightly", "expression": "30 2 * * *", "payload": {"to": "Ada"}}
    )
    made = function("schedules.create_schedule")("default", client=client, body=body)
    assert (made.name, made.revision) == ("reports/nightly", 1)
    read = function("schedules.get_schedule")("default", "reports~nightly", client=client)
    assert read.definition.to_dict()["payload"] == {"to": "Ada"}
    listed = function("schedules.list_schedules")("default", client=client)
    assert [each.name for each in listed.items] == ["reports/nightly"]
    submit = import_module(f"{PACKAGE}.api.runs.submit")
    run = submit.sync(
        "default", client=client, body=models.SubmitRequest.from_dict({"job": "greet", "delay": 1_000_000})
    )
    found = function("runs.get_run")("default", run.url_id, client=client)
    assert (found.id, found.job) == (run.id, "greet")
    delete = import_module(f"{PACKAGE}.api.schedules.delete_schedule")
    assert delete.sync_detailed("default", "reports~nightly", client=client).status_code == 204


def test_a_refusal_is_a_problem_with_field_value_and_remedy(client: Any) -> None:
    models = import_module(f"{PACKAGE}.models")
    body = models.CreateScheduleBody.from_dict({"name": "a", "job": "greet", "expression": "61 * * * *"})
    refused = function("schedules.create_schedule")("default", client=client, body=body)
    assert isinstance(refused, models.Problem)
    assert (refused.status, refused.field, refused.value) == (422, "expression", "61 * * * *")
    assert refused.remedy

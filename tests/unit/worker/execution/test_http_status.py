"""The status of an exception, as the clients that carry one build it: theirs where they are installed, their attributes elsewhere."""

from __future__ import annotations

import urllib.error
import urllib.request
from datetime import UTC, datetime
from email.message import Message
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from quarterjack import Context, Registry, Retry
from quarterjack.testing import Harness
from quarterjack.worker.execution.http_status import http_status

from tests.support.http_endpoint import serving


class Carrier(Exception):
    """An exception with attributes of a client's."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        vars(self).update(attributes)


class Touchy(Exception):
    """As httpx' RequestError: a property that may not be asked for."""

    @property
    def response(self) -> object:
        raise RuntimeError("there is none")


@pytest.mark.parametrize(
    "problem",
    [
        Carrier(response=SimpleNamespace(status_code=404)),  # requests.HTTPError, httpx.HTTPStatusError
        Carrier(status=404, message="Not Found", headers={}),  # aiohttp.ClientResponseError
        Carrier(status=404, reason="Not Found", body="{}"),  # kubernetes.client.ApiException
        Carrier(status_code=404),  # openai, anthropic, azure, starlette
        Carrier(http_status=404),  # stripe
        Carrier(code=HTTPStatus.NOT_FOUND),  # google.api_core.exceptions.NotFound
        urllib.error.HTTPError("https://example.com", 404, "Not Found", Message(), None),
    ],
)
def test_a_status_is_found_where_clients_carry_it(problem: BaseException) -> None:
    assert http_status(problem) == 404


@pytest.mark.parametrize(
    "problem",
    [
        ValueError("404"),
        SystemExit(404),  # an exit code
        Carrier(code=404),  # whose?
        Carrier(status="404"),
        Carrier(status=True),
        Carrier(status=4),
        Carrier(status_code=lambda: 404),
        Carrier(response=None),
        Touchy(),
        # AWS answers 400 when it throttles: the code says what it is, and not the status.
        ClientError(
            {"Error": {"Code": "ThrottlingException"}, "ResponseMetadata": {"HTTPStatusCode": 400}},
            "PutItem",
        ),
    ],
)
def test_nothing_else_is_taken_for_one(problem: BaseException) -> None:
    assert http_status(problem) is None


def test_the_status_of_a_cause_is_not_that_of_its_effect() -> None:
    with pytest.raises(ValueError, match="the shop is closed") as raised:
        raise ValueError("the shop is closed") from Carrier(status_code=404)
    assert http_status(raised.value) is None


def test_clients_that_are_installed_carry_it_so() -> None:
    requests = pytest.importorskip("requests")
    answer = requests.Response()
    answer.status_code, answer.url = 403, "https://example.com"
    with pytest.raises(requests.HTTPError) as refused:
        answer.raise_for_status()
    assert http_status(refused.value) == 403


@pytest.mark.parametrize(("status", "attempts"), [(404, 1), (403, 1), (429, 3), (503, 3)])
def test_a_job_that_calls_a_server_is_repeated_as_the_answer_says(status: int, attempts: int) -> None:
    jobs = Registry()
    with serving() as endpoint:
        endpoint.answers(status)

        @jobs.job("fetch", retry=Retry(max_attempts=3, base=1.0))
        def fetch(ctx: Context, payload: object) -> None:
            try:
                urllib.request.urlopen(endpoint.url, timeout=10).close()
            except urllib.error.HTTPError as refused:
                with refused:  # it holds the connection; Python 3.14 warns of it
                    raise

        harness = Harness(jobs, at=datetime(2026, 5, 4, 8, tzinfo=UTC))
        run = harness.scheduler.submit("fetch")
        harness.advance(minutes=5)
    found = harness.scheduler.get_run(run.id)
    assert (found.state, found.attempt, found.error_code) == ("DEAD", attempts, str(status))
    assert len(endpoint.asked) == attempts

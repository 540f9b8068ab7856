"""Requests that are generated from the document of the HTTP API, and what their answers are checked for."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example]
MODES = ("positive", "negative")
TOO_LARGE = 413


def schemathesis() -> Any:
    """The package, which has no types. Its import takes seconds, and few who collect these tests run them."""
    return import_module("schemathesis")


def quietly(examples: int) -> settings:
    """As many requests of an operation, the same each time."""
    return settings(max_examples=examples, deadline=None, database=None, derandomize=True, suppress_health_check=_SLOW)


def operations(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Method and path of each operation for which a caller has to say who he is."""
    return [
        (method.upper(), path)
        for path, found in document["paths"].items()
        for method in found
        if path.startswith("/v1/")
    ]


def generation(mode: str) -> Any:
    """How a strategy of schemathesis is asked for valid or for invalid requests."""
    return schemathesis().GenerationMode[mode.upper()]


def checks(status: int = 0) -> list[Any]:
    """What an answer is checked for. That valid requests are accepted is none of it: a schema knows no expressions and no jobs.

    A body that is too large is refused with 413, which schemathesis does not count among the refusals.
    """
    found = import_module("schemathesis.specs.openapi.checks")
    words = ("status_code", "content_type", "response_headers", "response_schema")
    conformance = [getattr(found, f"{word}_conformance") for word in words]
    server_error = import_module("schemathesis.checks").not_a_server_error
    rejection = [] if status == TOO_LARGE else [found.negative_data_rejection]
    return [server_error, *conformance, *rejection, found.ignored_auth]


def lists_for_texts(case: Any, document: dict[str, Any]) -> set[str]:
    """The parameters of a query that get a list although they take none: it is no fault when it is sent, of ``?job=a&job=b`` the last."""
    parameters = document["paths"][case.path][case.method.lower()].get("parameters", ())
    lists = {one["name"] for one in parameters if '"array"' in json.dumps(one["schema"])}
    return {name for name, value in dict(case.query or {}).items() if isinstance(value, list)} - lists

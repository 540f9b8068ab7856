"""One suite over every implementation of the ports: in memory, the local cloud (MiniStack) with claims by PartiQL and by
PutItem; and, in ``make check``, moto and the local cloud with DynamoDB Local, Amazon's own: each with a third of the suite, another one
every day. ``make contract ENGINE=dynamodb-local`` runs all of it.

Where an engine is wrong by AWS's documentation, a test says ``engine.is_wrong("…")`` and is skipped there with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from quarterjack.local.cloud import LocalCloud
from quarterjack.ports.services import Services
from quarterjack.testing.cloud import fresh_settings

from tests.support.dynamodb_local import endpoint_with_dynamodb_local
from tests.support.endpoints import PUT_ONLY, engine_asked_for
from tests.support.engines import (
    Engine,
    _in_memory,
    _in_moto,
    _wired,
)
from tests.support.parts import in_its_turn


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """All engines, or the one of ``make contract``; how claims are made matters to claims and take-overs alone."""
    if "engine" in metafunc.fixturenames:
        claims = "ledger_claims" in metafunc.module.__name__
        if (asked := engine_asked_for()) is not None:
            ways = ["put"] if asked in PUT_ONLY else ["partiql", "put"] if claims else ["partiql"]
            metafunc.parametrize("engine", [f"{asked}-{way}" for way in ways], indirect=True)
            return
        names = ["memory", "ministack-partiql", *(["ministack-put"] if claims else [])]
        test = metafunc.definition.nodeid
        todays = [name for name in ("moto", "dynamodb_local-partiql") if in_its_turn(f"{test} on {name}", 3)]
        more = [pytest.param(name, marks=pytest.mark.check) for name in todays]
        metafunc.parametrize("engine", [*names, *more], indirect=True)


@pytest.fixture(scope="session")
def dynamodb_local(local_cloud: LocalCloud) -> Iterator[str]:
    """The URL of the session's local cloud with DynamoDB Local in place of its tables."""
    with endpoint_with_dynamodb_local(urlsplit(local_cloud.endpoint).netloc) as endpoint:
        yield endpoint


@pytest.fixture
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """A fresh installation on one of them."""
    name, _, claim_by = request.param.partition("-")
    if name == "memory":
        yield _in_memory()
    elif engine_asked_for() is not None:
        cloud: LocalCloud = request.getfixturevalue("local_cloud")
        yield _wired(name, fresh_settings(cloud, claim_by=claim_by), monkeypatch)
    elif name == "moto":
        with _in_moto(monkeypatch) as wired:
            yield wired
    else:
        cloud = request.getfixturevalue("local_cloud")
        endpoint = cloud.endpoint if name == "ministack" else request.getfixturevalue(name)
        yield _wired(name, fresh_settings(cloud, claim_by=claim_by, endpoint=endpoint), monkeypatch)


@pytest.fixture
def services(engine: Engine) -> Services:
    return engine.services

from __future__ import annotations

from collections.abc import Iterator

import pytest
from quarterjack.ready_jobs.http.exchange import _trust

from tests.support.certificates import certified
from tests.support.http_endpoint import Endpoint, serving


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as made:
        yield made


@pytest.fixture
def other() -> Iterator[Endpoint]:
    with serving() as made:
        yield made


@pytest.fixture(autouse=True)
def trust_anew() -> Iterator[None]:
    _trust.cache_clear()
    yield
    _trust.cache_clear()


@pytest.fixture
def secure(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """An endpoint with TLS, whose certificate is trusted."""
    context, certificate = certified(tmp_path_factory.mktemp("tls"), "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with serving(context) as made:
        yield made

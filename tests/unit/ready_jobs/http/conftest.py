from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.http_endpoint import Endpoint, serving


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as made:
        yield made


@pytest.fixture
def other() -> Iterator[Endpoint]:
    with serving() as made:
        yield made

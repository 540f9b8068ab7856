"""A service on the loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.http_servers import Service, serving


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as made:
        yield made

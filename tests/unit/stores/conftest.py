"""Stores over tables in memory: a fault in a store is red here, without an engine."""

from __future__ import annotations

import pytest
from quarterjack.domain.times import from_ms
from quarterjack.ports.services import Services
from quarterjack.testing import ManualClock
from quarterjack.testing.memory.installation import Memory

from tests.support.builders import NOON


@pytest.fixture
def memory() -> Memory:
    return Memory(ManualClock(from_ms(NOON)))


@pytest.fixture
def services(memory: Memory) -> Services:
    return memory.connect()

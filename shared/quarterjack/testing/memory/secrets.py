"""Secrets of tenants in memory. A new value is used at once: nothing is cached."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from quarterjack.ports.secrets import StoredSecret, no_secret, place_of, storable_value
from quarterjack.testing.memory.calls import Calls

PREFIX = "memory"


class MemorySecrets:
    """Parameters of SSM as one process sees them."""

    def __init__(self, calls: Calls, parameters: dict[str, tuple[str, int, int]], clock: Callable[[], int]) -> None:
        self._calls, self._parameters, self._clock = calls, parameters, clock  # by name: value, version, UTC ms

    def get(self, tenant: str, name: str) -> str:
        place = place_of(PREFIX, tenant, name)
        found = self._calls.one("GetParameter", "secrets", "get", lambda: self._parameters.get(place), place)
        if found is None:
            raise no_secret(place, tenant, name)
        return found[0]

    def put(self, tenant: str, name: str, value: str) -> None:
        place, text = place_of(PREFIX, tenant, name), storable_value(value)

        def put() -> None:
            _, version, _ = self._parameters.get(place, ("", 0, 0))
            self._parameters[place] = (text, version + 1, self._clock())

        self._calls.one("PutParameter", "secrets", "put", put, place)

    def delete(self, tenant: str, name: str) -> bool:
        place = place_of(PREFIX, tenant, name)
        return (
            self._calls.one("DeleteParameter", "secrets", "delete", lambda: self._parameters.pop(place, None), place)
            is not None
        )

    def list(self, tenant: str) -> list[StoredSecret]:
        folder = place_of(PREFIX, tenant, "x")[:-1]
        found = self._calls.one("GetParametersByPath", "secrets", "list", lambda: dict(self._parameters), folder)
        return [
            StoredSecret(
                name=place.removeprefix(folder), changed_at=datetime.fromtimestamp(at / 1_000, UTC), version=version
            )
            for place, (_, version, at) in sorted(found.items())
            if place.startswith(folder)
        ]

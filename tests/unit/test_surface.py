"""What users of a release name is there in every later one of its line: in Python, settings, commands, the HTTP API, the construct."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.surface import breaks, kept, releases, surface


@pytest.mark.parametrize("release", releases())
def test_nothing_of_a_release_is_gone_or_differs(release: str) -> None:
    """What is meant to break it waits for the next line of releases, or keeps the old name beside the new one."""
    assert [*breaks(kept(release), surface())] == []


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"f": {"a": {"needed": True}}}, {"f": {}}, ["/f/a: gone"]),
        ({"f": {}}, {"f": {"a": {"needed": True}}}, ["/f/a: new, and needed"]),
        ({"f": {}}, {"f": {"a": {"default": "1"}}, "g": {}}, []),
        ({"f": {"a": {"default": "1"}}}, {"f": {"a": {"default": "2"}}}, ["/f/a/default: was '1', is '2'"]),
        ({"f": {"a": {"default": "1"}}}, {"f": {"a": {"needed": True}}}, ["/f/a/default: gone"]),
        ({"enum": ["a", "b"]}, {"enum": ["b", "c"]}, ["/enum: 'a' is gone"]),
        ({"f": {"a": {"always": True}}}, {"f": {"a": {}}}, ["/f/a/always: gone"]),
    ],
)
def test_what_breaks_users_is_told(before: Any, after: Any, told: list[str]) -> None:
    assert [*breaks(before, after)] == told


def test_the_surface_has_what_users_name() -> None:
    found = surface()
    assert found["python"]["quarterjack"]["Scheduler"]["submit"]["job"] == {
        "kind": "POSITIONAL_OR_KEYWORD",
        "needed": True,
        "place": 1,
    }
    assert found["settings"]["prefix"] == "'quarterjack'"
    assert "--delay" in found["commands"]["quarterjack submit"]
    assert found["http"]["paths"]["POST /v1/tenants/{tenant}/runs"]["body"]
    assert found["construct"]["jobs"] == {"needed": True}

"""``GET /forecast``: the SDK's forecast as a document."""

from __future__ import annotations

import pytest

from tests.support.api import NIGHTLY, Api


def with_schedules(*names: str) -> Api:
    api = Api()
    for name in names:
        api.put(f"/schedules/{name}", NIGHTLY, 201)
    return api


def test_the_next_day_by_the_hour_of_a_zone() -> None:
    found = with_schedules("a", "b").get("/forecast?timezone=Europe/Berlin&listed=1")
    assert len(found["spans"]) == 24
    busy = [span for span in found["spans"] if span["fires"]]
    assert [(span["start"][11:], span["fires"]) for span in busy] == [("02:00:00+02:00", 2)]
    assert (found["fires"], found["firing"], found["looked_at"], found["cursor"]) == (2, 2, 2, None)
    (first,) = found["schedules"]
    assert (first["name"], first["fires"], first["first"][11:]) == ("a", 1, "02:30:00+02:00")


def test_it_goes_on_with_its_cursor_and_filters() -> None:
    api = with_schedules("a", "b", "c")
    first = api.get("/forecast?limit=2")
    assert first["looked_at"] == 2
    rest = api.get(f"/forecast?limit=2&cursor={first['cursor']}")
    assert ([one["name"] for one in rest["schedules"]], rest["cursor"]) == (["c"], None)
    assert api.get("/forecast?contains=b&job=greet&by=minute")["firing"] in (0, 1)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("timezone=Berlin", "timezone"),
        ("until=2020-01-01T00:00:00Z", "until"),
        ("by=minute&until=2027-01-01T00:00:00Z", "by"),
        ("by=week", "by"),
        ("limit=10001", "limit"),
    ],
)
def test_what_cannot_be_asked_is_named(query: str, field: str) -> None:
    status, problem = with_schedules("a").problem("GET", f"/forecast?{query}")
    assert (status, problem["field"]) == (422, field)
    assert problem["remedy"]

"""What belongs to a rule, given beside the expression: the error says where it goes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from quarterjack import Registry, Rule
from quarterjack.errors import InvalidInput
from quarterjack.testing import Harness

NOW = datetime(2026, 5, 4, 8, tzinfo=UTC)


@pytest.mark.parametrize("method", ["create_schedule", "upsert_schedule"])
@pytest.mark.parametrize(
    "words",
    [
        {"jitter": 60},
        {"window": 60},
        {"exclude": ["weekends"]},
        {"also": ["@daily"]},
        {"calendar": "DE"},
        {"end": NOW.replace(year=2027)},
        {"start": NOW},
    ],
    ids=lambda words: next(iter(words)),
)
def test_the_error_names_the_rule(method: str, words: dict[str, Any]) -> None:
    jobs = Registry()
    jobs.job("ok")(lambda ctx, payload: None)
    scheduler = Harness(jobs, at=NOW).scheduler
    (name,) = words
    with pytest.raises((TypeError, InvalidInput), match=rf"Rule\(expression=\.\.\., timezone=\.\.\., {name}=\.\.\.\)"):
        getattr(scheduler, method)("s", "ok", "@daily", **words)
    value: Any = (words[name][0],) if isinstance(words[name], list) else words[name]
    of_rule: dict[str, Any] = {name: value}
    assert scheduler.create_schedule("s", "ok", Rule(expression="@daily", **of_rule)).name == "s"

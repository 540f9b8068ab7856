"""``quarterjack freeze``, ``thaw`` and ``frozen`` as one types them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.command_line import Say

pytestmark = pytest.mark.cloud

END = (datetime.now(UTC) + timedelta(hours=3)).replace(microsecond=0).isoformat()


def test_frozen_and_thawed(said: Say) -> None:
    assert said("frozen").out == "not frozen\n"
    assert said("--json", "frozen").json == [{"frozen_until": None}]
    assert said("--json", "freeze", END, "--reason", "audit", "--yes").json == [{"frozen_until": END}]
    assert said("frozen").out.startswith("frozen until ")
    assert said("--json", "frozen").json == [{"frozen_until": END}]
    assert said("--json", "thaw").json == [{"frozen_until": None}]
    assert said("frozen").out == "not frozen\n"


def test_of_a_job_alone(said: Say) -> None:
    frozen = said("freeze", END, "--job", "orders.sync", "--yes").out
    assert frozen.startswith("job orders.sync: frozen until ")
    assert frozen.endswith("; 0 runs wait\n")
    assert said("--json", "frozen").json[0]["parts"][0]["part"] == "job orders.sync"
    assert said("thaw", "--job", "orders.sync", "--per-minute", "60").out == "0 runs start, 60 a minute\n"
    assert said("frozen").out == "not frozen\n"
    assert "other" in said("thaw", "--job", "other").err


def test_it_asks_first(said: Say) -> None:
    refused = said("freeze", END)
    assert refused.code == 8
    assert "Stop all starts of tenant default until" in refused.err
    assert said("--json", "freeze", END).problem["error"] == "NotConfirmed"
    assert said("--json", "frozen").json == [{"frozen_until": None}]


def test_of_one_tenant_alone(said: Say) -> None:
    assert said("--tenant", "acme", "freeze", END, "--yes").code == 0
    assert said("--json", "frozen").json == [{"frozen_until": None}]
    assert said("--json", "--tenant", "acme", "frozen").json == [{"frozen_until": END}]


@pytest.mark.parametrize(("until", "field"), [("soon", "UNTIL"), ("yesterday", "UNTIL")])
def test_an_end_that_is_none_is_refused(said: Say, until: str, field: str) -> None:
    refused = said("--json", "freeze", until, "--yes")
    assert (refused.code, refused.problem["field"]) == (1, field)

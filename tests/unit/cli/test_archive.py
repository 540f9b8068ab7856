"""``quarterjack archive read`` and ``runs show --transitions``, against a fresh installation."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack.domain.run import Failure, RunState
from quarterjack.domain.times import DAY, SECOND, from_ms
from quarterjack.historian.archive import archive
from quarterjack.services import connect, system_clock
from quarterjack.settings import Settings

from tests.support.builders import a_run
from tests.support.command_line import Say
from tests.support.transitions import context_of, life

pytestmark = pytest.mark.cloud


@pytest.fixture
def run_id(local_settings: Settings) -> str:
    """A run that has failed, in ledger and archive."""
    due = system_clock() // SECOND * SECOND - 60 * SECOND
    run = a_run(due, owner=f"{local_settings.tenant}/report")
    services = connect(local_settings)
    services.ledger.claim([run])
    end: dict[str, Any] = {
        "state": RunState.DEAD,
        "reason": "failed 3 times",
        "failure": Failure(kind="ValueError", message="boom"),
    }
    archive(life(run, **end), context_of(services))
    return str(run.ref)


def test_the_archive_is_read(said: Say, run_id: str) -> None:
    since = from_ms(system_clock() - DAY).isoformat()
    lines = said("archive", "read", "--since", since, "--json").json
    assert [line["kind"] for line in lines] == ["claimed", "leased", "dead"]
    assert lines[-1]["error_type"] == "ValueError"
    assert [line["run"] for line in said("archive", "read", "--since", since, "--limit", "1", "--json").json] == [
        run_id
    ]
    assert said("archive", "read", "--since", since, "--schedule", "other", "--json").json == []
    for option in (("--run", run_id), ("--job", "report"), ("--schedule", "report")):
        assert len(said("archive", "read", "--since", since, *option, "--json").json) == 3
    text = said("archive", "read", "--since", since, "--kind", "leased").out
    assert "leased" in text
    assert "QUEUED → RUNNING" in text
    assert "worker w1, fence 1" in text
    assert "failed 3 times, ValueError" in said("archive", "read", "--since", since, "--kind", "dead").out


def test_a_run_of_another_tenant_is_not_found(said: Say, run_id: str) -> None:
    """As by ``runs show``: an empty answer would say that the run has no transitions."""
    other = f"other/{run_id.partition('/')[2]}"
    answer = said("archive", "read", "--since", "-1h", "--run", other, "--json")
    assert answer.code == said("runs", "show", other).code == 3
    assert f"{other!r}: tenant" in answer.problem["message"]


def test_a_run_is_shown_with_its_transitions(said: Say, run_id: str) -> None:
    (shown,) = said("runs", "show", run_id, "--transitions", "--json").json
    assert shown["id"] == run_id
    assert [line["kind"] for line in shown["transitions"]] == ["claimed", "leased", "dead"]
    text = said("runs", "show", run_id, "--transitions").out
    assert text.index("state") < text.index("claimed") < text.index("leased")
    assert "transitions" not in said("runs", "show", run_id, "--json").json[0]


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("--since", "soon"), "--since"),
        (("--since", "2026-01-01T00:00:00Z", "--until", "2025-01-01T00:00:00Z"), "--until"),
        (("--since", "2026-01-01T00:00:00Z", "--kind", "exploded"), "--kind"),
        (("--since", "2026-01-01T00:00:00Z", "--run", "x"), "--run"),
        (("--since", "9999-01-01T00:00:00Z"), "--since"),
    ],
)
def test_bad_options_are_refused(said: Say, words: tuple[str, ...], field: str) -> None:
    found = said("archive", "read", *words, "--json")
    assert found.code == 1
    assert found.problem["field"] == field
    assert f"{field}='{words[words.index(field) + 1]}'" in found.problem["message"], "as it was typed"
    assert found.problem["remedy"]


def test_without_a_bucket_there_is_no_archive(said: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUARTERJACK_BUCKET")
    found = said("archive", "read", "--since", "2026-01-01T00:00:00Z", "--json")
    assert found.code == 6
    assert "set it to" in found.problem["message"]

"""``quarterjack audit list`` and ``verify``, and ``--actor`` and ``--reason``, as one types them."""

from __future__ import annotations

import json

import pytest
from quarterjack import Settings
from quarterjack.services import connect, system_clock
from quarterjack.stores.audit import audit_row
from quarterjack.stores.tables import AUDIT, RowWrite

from tests.support.builders import an_audit_entry
from tests.support.command_line import Say

pytestmark = pytest.mark.cloud

DAILY = ("daily", "report", "0 9 * * *")


def test_who_did_what_is_listed_newest_first(said: Say) -> None:
    said("--actor", "alice@acme", "--reason", "INC-1", "schedules", "create", *DAILY)
    said("schedules", "pause", "daily", "--reason", "move")
    listed = said("audit", "list", "--json").json
    assert [(line["act"], line["via"], line["reason"]) for line in listed] == [
        ("pause", "cli", "move"),
        ("create", "cli", "INC-1"),
    ]
    assert listed[1]["actor"] == "app:alice@acme"
    assert listed[1]["identity"] == listed[0]["actor"]
    text = said("audit", "list", "--schedule", "daily", "--act", "create").out
    assert "app:alice@acme" in text
    assert "pause" not in text
    nobody = said("audit", "list", "--actor", "bob")
    assert (nobody.code, nobody.out) == (0, "")
    assert "no audit entry matches" in nobody.err
    assert said("--json", "schedules", "describe", "daily").json[0]["revisions"][0]["actor"] == "app:alice@acme"


def test_the_cursor_that_is_printed_continues_with_the_same_words(said: Say) -> None:
    said("schedules", "create", *DAILY)
    said("schedules", "pause", "daily")
    first = said("audit", "list", "--since", "-3h", "--until", "now", "--limit", "1")
    cursor = (first.out + first.err).partition("--cursor '")[2].partition("'")[0]
    listed = said(
        "audit", "list", "--since", "-3h", "--until", "now", "--limit", "1", "--cursor", cursor, "--json"
    ).json
    assert [line["act"] for line in listed] == ["create"]
    words = ("--json", "audit", "list", "--since", "-3h", "--until", "now", "--limit", "1")
    for_programs = json.loads(said(*words).err)["cursor"]
    assert [line["act"] for line in said(*words, "--cursor", for_programs).json] == ["create"]


def test_it_verifies_and_says_what_it_found(said: Say, local_settings: Settings) -> None:
    said("schedules", "create", *DAILY)
    fine = said("audit", "verify")
    assert (fine.code, fine.out) == (0, "1 entries on 1 days, 0 closes, 0 of them anchored: no problems\n")
    row = audit_row(an_audit_entry("default/daily", at=system_clock())) | {"actor": "app:mallory"}
    services: object = connect(local_settings).audit
    vars(services)["_tables"].write("tamper", RowWrite(table=AUDIT, row=row, kind="put"))
    found = said("audit", "verify")
    assert found.code == 1
    assert "the entry is not as it was written" in found.out
    verdict = json.loads(said("audit", "verify", "--json").out)
    assert [problem["kind"] for problem in verdict["problems"]] == ["changed"]


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("audit", "list", "--act", "dance"), "--act"),
        (("audit", "list", "--since", "someday"), "--since"),
        (("audit", "list", "--run", "x"), "--run"),
        (("audit", "verify", "--day", "someday"), "--day"),
        (("audit", "verify", "--day", "2999-01-01", "--since", "2026-01-01T00:00:00Z"), "--day"),
        (("--actor", "iam:me", "frozen"), "--actor"),
        (("--reason", "x" * 1_001, "frozen"), "--reason"),
    ],
)
def test_what_is_refused_names_option_value_and_remedy(said: Say, words: tuple[str, ...], field: str) -> None:
    problem = said("--json", *words).problem
    assert problem["field"] == field
    assert problem["remedy"]


def test_the_variable_names_an_actor_too(said: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERJACK_ACTOR", "cron@host")
    said("schedules", "create", *DAILY)
    assert said("audit", "list", "--json").json[0]["actor"] == "app:cron@host"
    monkeypatch.setenv("QUARTERJACK_ACTOR", "system:ticker")
    problem = said("--json", "schedules", "list").problem
    assert problem["field"] == "QUARTERJACK_ACTOR"


def test_the_check_writes_metrics_before_its_report(said: Say, local_settings: Settings) -> None:
    metrics, report = said("audit", "--json", "--embedded-metrics").json
    assert (metrics["service"], metrics["Audits"]) == (f"{local_settings.prefix}-auditor", [1])
    assert metrics["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["service"]]
    assert report["rearmed"] == 0
    assert len(said("audit", "--json").json) == 1


def test_metrics_of_a_listing_are_refused(said: Say) -> None:
    refused = said("--json", "audit", "--embedded-metrics", "list")
    assert (refused.code, refused.out) == (1, "")
    assert refused.problem["message"] == (
        "--embedded-metrics=True: writes metrics of the check, and `audit list` does not check; leave it out, or leave out `list`"
    )

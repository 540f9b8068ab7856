"""``quarterjack tenants …`` as one types them."""

from __future__ import annotations

import logging

import pytest
from quarterjack import Settings
from quarterjack.cli.exits import ExitCode
from quarterjack.services import connect, system_clock

from tests.support.command_line import Say
from tests.support.open_breakers import open_breaker, open_breaker_of_all

pytestmark = pytest.mark.cloud
ALICE = "app:alice@acme"


def test_from_the_first_profile_to_the_last_grant(said: Say) -> None:
    empty = said("tenants", "list")
    assert (empty.code, empty.out) == (0, "")
    assert "no tenant has a profile" in empty.err
    (made,) = said(
        "--json", "tenants", "create", "acme", "--jobs", "report.*", "--queue", "bulk", "--description", "Acme"
    ).json
    assert (made["state"], made["jobs"], made["queue"], made["version"]) == ("ACTIVE", ["report.*"], "bulk", 1)
    (changed,) = said(
        "--json", "tenants", "set", "acme", "--add-job", "http.get", "--no-description", "--default-queue"
    ).json
    assert (changed["jobs"], changed["description"], changed["queue"]) == (["report.*", "http.get"], None, None)
    assert said("--json", "tenants", "set", "acme", "--remove-job", "http.get").json[0]["jobs"] == ["report.*"]
    said("tenants", "grant", "~installation", "--to", "iam:*", "--can", "admin")  # a tenant's grants leave an admin
    said("tenants", "grant", "acme", "--to", ALICE, "--can", "operator", "--can", "submit", "--jobs", "report.*")
    shown = said("tenants", "show", "acme").out
    assert "report.*" in shown
    assert f"{ALICE}  operator, submit  report.*\n" in shown
    listed = said("tenants", "list").out.splitlines()
    assert [line.split()[:4] for line in listed if "~" not in line] == [
        ["name", "state", "jobs", "grants"],
        ["acme", "ACTIVE", "report.*", "1"],
    ]
    granted = said("--tenant", "acme", "audit", "list", "--act", "grant").out
    assert f"grant(can=operator,submit jobs=report.* to={ALICE})" in granted
    (left,) = said("--json", "tenants", "revoke", "acme", "--to", ALICE, "--can", "submit").json
    assert left["grants"] == [{"to": ALICE, "can": ["operator"], "jobs": ["report.*"]}]
    assert said("--json", "tenants", "revoke", "acme", "--to", ALICE).json[0]["grants"] == []


def test_a_tenant_that_may_run_nothing_is_shown_as_one(said: Say) -> None:
    assert said("--json", "tenants", "set", "acme", "--no-jobs").json[0]["jobs"] == []
    assert "none" in said("tenants", "show", "acme").out
    assert "none" in said("tenants", "list").out
    assert said("--json", "tenants", "set", "acme", "--default-jobs").json[0]["jobs"] is None


def test_its_figures_are_shown(said: Say) -> None:
    said("tenants", "create", "acme", "--limit", "runs_per_second=2", "--limit", "runs_burst=5")
    (found,) = said("--json", "tenants", "figures", "acme", "--minutes", "2").json
    assert (found["tokens"], found["outcomes"], found["waiting"]) == ({"runs_per_second": 5}, {}, 0)
    assert "schedules waiting" in said("tenants", "figures", "acme").out


def test_suspend_asks_first(said: Say) -> None:
    refused = said("tenants", "suspend", "acme")
    assert refused.code == 8
    assert "Stop all work of tenant acme" in refused.err
    (found,) = said("--json", "tenants", "suspend", "acme", "--reason", "unpaid", "--yes").json
    assert (found["state"], found["suspension_reason"]) == ("SUSPENDED", "unpaid")
    assert said("--json", "tenants", "resume", "acme").json[0]["state"] == "ACTIVE"


def test_the_installations_defaults_are_a_profile(said: Say) -> None:
    assert said("--json", "tenants", "set", "~installation", "--jobs", "a").json[0]["name"] == "~installation"
    assert said("tenants", "suspend", "~installation", "--yes").code == 1


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("create", "a/b"), "TENANT"),
        (("create", "acme", "--jobs", "a b"), "--jobs"),
        (("set", "acme", "--add-job", "a"), "--add-job"),
        (("set", "acme", "--jobs", "a", "--no-jobs"), "--jobs"),
        (("set", "acme", "--queue", "a", "--default-queue"), "--queue"),
        (("set", "acme", "--description", "a", "--no-description"), "--description"),
        (("set", "acme", "--jobs", "a", "--add-job", "b"), "--jobs"),
        (("grant", "acme", "--to", "iam:nobody", "--can", "admin"), "--to"),
        (("grant", "acme", "--to", "alice", "--can", "operator"), "--to"),
        (("grant", "acme", "--to", ALICE, "--can", "opperator"), "--can"),
    ],
)
def test_bad_input_names_the_option(said: Say, words: tuple[str, ...], field: str) -> None:
    refused = said("--json", "tenants", *words)
    assert (refused.code, refused.problem["field"]) == (1, field)
    assert said("--json", "tenants", "list").json == []


def test_what_is_not_there_and_what_is_there_have_codes(said: Say) -> None:
    assert said("tenants", "show", "acme").code == ExitCode.NOT_FOUND
    said("tenants", "create", "acme")
    assert said("tenants", "create", "acme").code == ExitCode.CONFLICT
    assert said("tenants", "set", "acme", "--expected-version", "7").code == ExitCode.CONFLICT
    assert said("tenants", "revoke", "acme", "--to", ALICE).code == ExitCode.NOT_FOUND


def test_acts_are_audited_as_the_command_lines(said: Say) -> None:
    said("--reason", "contract signed", "tenants", "create", "default")
    (line,) = said("audit", "list", "--json").json
    assert (line["act"], line["via"], line["reason"]) == ("create-tenant", "cli", "contract signed")


def test_acts_on_the_installation_are_listed(said: Say) -> None:
    said("tenants", "set", "~installation", "--jobs", "a")
    assert [line["act"] for line in said("audit", "list", "--installation", "--json").json] == ["set-tenant"]
    assert said("audit", "list", "--json").json == []
    assert said("audit", "verify", "--installation", "--json").json[0]["entries"] == 1


def test_who_has_no_grant_is_told_the_command_that_gives_it(said: Say) -> None:
    for principal in ("iam:*", "iam:nobody"):
        assert said("tenants", "grant", "~installation", "--to", principal, "--can", "admin").code == 0
    assert said("tenants", "revoke", "~installation", "--to", "iam:*").code == 0
    refused = said("schedules", "list")
    assert refused.code == ExitCode.FORBIDDEN
    assert "may not read-schedules" in refused.err
    assert "quarterjack tenants grant" in refused.err
    assert said("tenants", "list").code == ExitCode.FORBIDDEN
    assert said("schedules", "pause", "nightly").code == ExitCode.FORBIDDEN


def test_a_reason_is_what_was_given_and_not_the_profiles_note(said: Say) -> None:
    said("tenants", "create", "default", "--description", "contract 17")
    said("--reason", "ticket 5", "tenants", "set", "default", "--jobs", "report.*")
    said("tenants", "suspend", "default", "--reason", "unpaid", "--yes")
    lines = said("audit", "list", "--json").json
    assert [(line["act"], line["reason"]) for line in lines] == [
        ("suspend-tenant", "unpaid"),
        ("set-tenant", "ticket 5"),
        ("create-tenant", None),
    ]
    assert "jobs=report.*" in said("audit", "list", "--act", "set-tenant").out


def test_a_job_that_the_tenant_may_not_run_is_an_error_and_the_operators_command(
    said: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    said("tenants", "set", "default", "--no-jobs")
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as in a process of its own
    refused = said("submit", "report.daily")
    assert refused.code == ExitCode.FORBIDDEN
    error, command = refused.err.splitlines()[-2:]
    assert error.startswith("error: tenant 'default' may not run job 'report.daily'; ask an operator")
    assert command == "operators: quarterjack tenants set default --add-job report.daily"
    assert "access.denied" not in refused.err
    assert said("--json", "submit", "report.daily").problem["job"] == "report.daily"
    (denied, *_) = [line for line in said("audit", "list", "--act", "deny").out.splitlines() if "deny" in line]
    assert "job=report.daily" in denied


def test_limits_as_they_are_typed_and_what_they_do(said: Say) -> None:
    (made,) = said(
        "--json", "tenants", "create", "acme", "--limit", "schedules=1", "--limit", "runs_per_second=0.5"
    ).json
    assert made["limits"] == {"schedules": 1, "runs_per_second": 0.5}
    daily = ("note", "0 9 * * *")
    assert said("--tenant", "acme", "schedules", "create", "a", *daily).code == 0
    refused = said("--tenant", "acme", "schedules", "create", "b", *daily)
    assert refused.code == ExitCode.FORBIDDEN
    known = said("--json", "--tenant", "acme", "schedules", "create", "b", *daily).problem
    assert (known["tenant"], known["limit"], known["value"], known["most"]) == ("acme", "schedules", 2, 1)
    assert known["remedy"] in known["message"]
    assert "schedules=2: tenant 'acme' may have 1" in refused.err
    (changed,) = said(
        "--json", "tenants", "set", "acme", "--limit", "schedules=default", "--limit", "runs_burst=3"
    ).json
    assert changed["limits"] == {"runs_per_second": 0.5, "runs_burst": 3}
    assert "runs_burst" in said("tenants", "show", "acme").out
    wrong = said("tenants", "set", "acme", "--limit", "schedules")
    assert (wrong.code, "NAME=NUMBER" in wrong.err) == (1, True)
    none = said("tenants", "set", "acme", "--limit", "waiting_runs=0")
    assert "limits.waiting_runs=0" in none.err.replace("\n", " ")
    assert "`default`" in none.err, "the word that this command takes"
    assert said("tenants", "set", "acme", "--limit", "schedules=1_000").code == 1
    assert (
        "is a second schedules"
        in said("tenants", "set", "acme", "--limit", "schedules=1", "--limit", "schedules=2").err
    )
    assert "limits(runs_burst=3" in said("--tenant", "acme", "audit", "list", "--act", "set-tenant").out


def test_a_command_of_a_throttled_tenant_waits_or_ends_with_the_code_of_what_may_succeed_later(said: Say) -> None:
    said("tenants", "create", "acme", "--limit", "runs_per_second=0.01")
    assert said("--tenant", "acme", "submit", "note").code == 0
    known = said("--json", "--tenant", "acme", "submit", "note").problem
    assert {name: known[name] for name in ("tenant", "limit", "per_second", "burst")} == {
        "tenant": "acme",
        "limit": "runs_per_second",
        "per_second": 0.01,
        "burst": 1,
    }
    assert 0 < known["seconds"] <= 200
    refused = said("--tenant", "acme", "submit", "note")
    assert refused.code == ExitCode.UNAVAILABLE
    assert "tenant 'acme' is throttled: runs_per_second=0.01, 1 at once; nothing was done, come back in" in refused.err


def test_breakers_are_listed_and_closed(said: Say, local_settings: Settings) -> None:
    empty = said("--tenant", "acme", "breakers", "list")
    assert (empty.code, empty.out) == (0, "")
    assert "no job of the tenant fails" in empty.err
    open_breaker_of_all("acme", connect(local_settings), system_clock())
    open_breaker("acme", "note", connect(local_settings), system_clock())
    listed = said("--tenant", "acme", "breakers", "list").out
    assert [line.split()[:2] for line in listed.splitlines()] == [["job", "state"], ["*", "OPEN"], ["note", "OPEN"]]
    assert said("--tenant", "acme", "breakers", "reset", "other", "--yes").code == ExitCode.NOT_FOUND
    assert "closed: *, note" in said("--tenant", "acme", "breakers", "reset", "--yes").out
    assert "none was open" in said("--tenant", "acme", "breakers", "reset", "--yes").out
    assert "jobs=*,note" in said("--tenant", "acme", "audit", "list", "--act", "reset-breaker").out

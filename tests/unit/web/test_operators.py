from __future__ import annotations

import pytest
from quarterjack import Settings, doctor
from quarterjack.doctor import Finding, Severity
from quarterjack.web import Actor

from tests.support.api import NIGHTLY, Api
from tests.support.open_breakers import open_breaker, open_breaker_of_all

OPERATOR = Actor(name="root@acme", operator=True)
OF_OPERATORS = [
    ("GET", "/tenants"),
    ("POST", "/tenants"),
    ("GET", "/tenants/acme"),
    ("GET", "/tenants/acme/figures"),
    ("PATCH", "/tenants/acme"),
    ("POST", "/tenants/acme/suspend"),
    ("POST", "/tenants/acme/resume"),
    ("POST", "/tenants/acme/grants"),
    ("POST", "/tenants/acme/grants/revoke"),
    ("GET", "/tenants/acme/breakers"),
    ("POST", "/tenants/acme/breakers/reset"),
    ("GET", "/tenants/acme/keys"),
    ("POST", "/tenants/acme/keys"),
    ("DELETE", "/tenants/acme/keys/crm.1"),
    ("GET", "/doctor"),
]


@pytest.mark.parametrize(("method", "path"), OF_OPERATORS)
def test_who_is_no_operator_is_told_nothing(method: str, path: str) -> None:
    api = Api()
    assert api.problem(method, path, {}, tenant=None)[1]["code"] == "forbidden"


def test_a_tenant_is_made_changed_suspended_and_resumed() -> None:
    api = Api(actor=OPERATOR)
    answer = api.ask("POST", "/tenants", {"tenant": "acme", "jobs": ["greet"]}, tenant=None)
    assert (answer.status_code, answer.headers["location"], answer.headers["etag"]) == (201, "/v1/tenants/acme", '"v1"')
    assert api.problem("POST", "/tenants", {"tenant": "acme"}, tenant=None)[1]["code"] == "already-exists"
    changed = api.ask("PATCH", "/tenants/acme", {"add_jobs": ["report.*"]}, tenant=None, If_Match='"v1"')
    assert changed.json()["jobs"] == ["greet", "report.*"]
    assert api.problem("PATCH", "/tenants/acme", {"jobs": None}, tenant=None, If_Match='"v1"')[0] == 412
    assert api.post("/tenants/acme/suspend", {"reason": "unpaid"}, tenant=None)["state"] == "SUSPENDED"
    assert api.post("/tenants/acme/resume", tenant=None)["state"] == "ACTIVE"
    assert [one["name"] for one in api.get("/tenants", tenant=None)["items"]] == ["acme"]
    assert api.problem("GET", "/tenants/nobody", tenant=None)[0] == 404


def test_the_figures_of_a_tenant_are_told() -> None:
    api = Api(actor=OPERATOR)
    api.post("/tenants", {"tenant": "acme", "limits": {"runs_per_second": 2}}, 201, tenant=None)
    found = api.get("/tenants/acme/figures?minutes=2", tenant=None)
    assert (found["tenant"], found["tokens"], found["waiting"]) == ("acme", {"runs_per_second": 2}, 0)
    assert api.problem("GET", "/tenants/acme/figures?minutes=61", tenant=None)[1]["field"] == "minutes"


def test_a_profile_is_changed_as_several_tags_or_any_say() -> None:
    api = Api(actor=OPERATOR)
    path, change = "/tenants/acme", {"description": "ours"}
    assert api.problem("PATCH", path, change, tenant=None, If_Match="*")[0] == 404, "there is none"
    api.ask("POST", "/tenants", {"tenant": "acme"}, tenant=None)
    assert api.problem("PATCH", path, change, tenant=None, If_Match='"v0", "v9"')[0] == 412
    for wrong, tags in ((412, 'W/"v1"'), (400, '"v1" "v2"'), (400, "v1"), (412, '"r1", "abc"')):
        status, said = api.problem("PATCH", path, change, tenant=None, If_Match=tags)
        assert (status, said["field"], said["value"]) == (wrong, "If-Match", tags)
    assert api.ask("PATCH", path, change, tenant=None, If_Match='"v9", "v1"').headers["etag"] == '"v2"'
    assert api.ask("PATCH", path, change, tenant=None, If_Match="*").is_success


def test_a_job_that_its_tenant_may_not_run_is_refused() -> None:
    api = Api(actor=OPERATOR)
    api.post("/tenants", {"tenant": "acme", "jobs": ["fail"]}, 201, tenant=None)
    status, said = api.problem("POST", "/runs", {"job": "greet"}, tenant="acme")
    assert (status, said["code"]) == (403, "job-not-granted")


def test_grants_are_given_and_taken_also_for_all_tenants() -> None:
    api = Api(actor=OPERATOR)
    # Grants to claimed actors would bind this one as well, and are tried where they are checked.
    body = {"to": "iam:arn:aws:iam::*", "can": ["admin"]}
    given = api.post("/tenants/~installation/grants", body, tenant=None)
    assert given["grants"] == [{**body, "jobs": ["*"]}]
    assert api.problem("POST", "/tenants/acme/grants", body | {"can": ["adnim"]}, tenant=None)[1]["field"] == "can"
    assert api.post("/tenants/~installation/grants/revoke", {"to": body["to"]}, tenant=None)["grants"] == []


def test_the_audit_names_the_operator() -> None:
    api = Api(actor=OPERATOR)
    api.post("/tenants", {"tenant": "acme"}, 201, tenant=None, Quarterjack_Reason="they signed")
    (line,) = api.get("/audit", tenant="acme")["items"]
    assert (line["actor"], line["via"], line["reason"]) == ("app:root@acme", "api", "they signed")


def test_the_doctor_is_asked_where_the_settings_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Finding(check="tables", verdict=Severity.WARN, what="a table is missing", remedy="deploy")
    monkeypatch.setattr(doctor, "run_checks", lambda settings: iter([found]))
    assert Api(actor=OPERATOR).problem("GET", "/doctor", tenant=None)[0] == 404
    answer = Api(actor=OPERATOR, settings=Settings()).get("/doctor", tenant=None)
    said = {"check": "tables", "verdict": "warn", "what": "a table is missing", "remedy": "deploy"}
    assert answer == {"items": [said]}


def test_keys_are_made_listed_and_revoked() -> None:
    api = Api(actor=Actor(name="ada", operator=True))
    asked = {"name": "crm", "can": ["submit"], "jobs": ["crm.*"], "expires_at": "2026-08-01T00:00:00Z"}
    made = api.client.post("/v1/tenants/acme/keys", json=asked)
    assert made.status_code == 201
    assert made.json()["text"].startswith("qj_acme_crm.1_")
    assert made.headers["cache-control"] == "no-store"
    (listed,) = api.client.get("/v1/tenants/acme/keys").json()["items"]
    assert listed == made.json()["key"]
    assert (listed["id"], listed["can"], listed["last_used_on"]) == ("crm.1", ["submit"], None)
    assert api.client.request("DELETE", "/v1/tenants/acme/keys/crm.1").json() == listed
    assert api.client.request("DELETE", "/v1/tenants/acme/keys/crm.1").status_code == 404
    wrong = api.client.post("/v1/tenants/acme/keys", json=asked | {"can": ["everything"]})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "can")


def test_limits_are_set_shown_and_taken_back() -> None:
    api = Api(actor=OPERATOR)
    made = api.post(
        "/tenants", {"tenant": "acme", "limits": {"runs_per_second": 0.5, "schedules": 2}}, 201, tenant=None
    )
    assert made["limits"] == {"runs_per_second": 0.5, "schedules": 2}
    changed = api.ask("PATCH", "/tenants/acme", {"limits": {"schedules": None, "runs_burst": 4}}, tenant=None).json()
    assert changed["limits"] == {"runs_per_second": 0.5, "runs_burst": 4}
    assert api.ask("PATCH", "/tenants/acme", {"description": "x"}, tenant=None).json()["limits"] == changed["limits"]
    status, said = api.problem("PATCH", "/tenants/acme", {"limits": {"shedules": 1}}, tenant=None)
    assert (status, said["field"], said["remedy"]) == (422, "limits", "did you mean 'schedules'?")
    for value in (True, False, [1], {"a": 1}):
        status, said = api.problem("PATCH", "/tenants/acme", {"limits": {"schedules": value}}, tenant=None)
        assert (status, said["field"].split(".")[0]) == (422, "limits"), value
    assert api.ask("GET", "/tenants/acme", tenant=None).json()["limits"] == changed["limits"]
    digits = b'{"limits": {"schedules": ' + b"9" * 5_000 + b"}}"
    answered = api.client.request(
        "PATCH", "/v1/tenants/acme", content=digits, headers={"content-type": "application/json"}
    )
    assert (answered.status_code, "set_int_max" in answered.text) == (400, False)
    assert "too many digits" in answered.text


def test_who_is_throttled_is_told_when_to_come_back() -> None:
    """And is let in then; the header of the server's own limit stays."""
    api = Api(actor=OPERATOR, rate=100.0)
    api.post("/tenants", {"tenant": "acme", "limits": {"runs_per_second": 0.4, "runs_burst": 2}}, 201, tenant=None)
    run = {"job": "greet", "payload": {"to": "Ada"}}
    for _ in range(2):
        api.post("/runs", run, 201, tenant="acme")
    answer = api.ask("POST", "/runs", run, tenant="acme")
    assert answer.status_code == 429
    said = answer.json()
    assert (said["code"], said["tenant"], said["limit"], said["seconds"]) == (
        "throttled",
        "acme",
        "runs_per_second",
        2.5,
    )
    assert answer.headers["retry-after"] == "3"
    policy, left = answer.headers["ratelimit-policy"].split(", "), answer.headers["ratelimit"].split(", ")
    assert policy[-1] == '"runs_per_second";q=2;w=5'
    assert left[-1] == '"runs_per_second";r=0;t=3'
    assert policy[0].startswith('"requests"')
    api.post("/runs", run, 201, tenant="beta")
    api.harness.advance(seconds=3)
    api.post("/runs", run, 201, tenant="acme")


def test_who_has_as_many_runs_as_it_may_is_told_when_they_are_counted_anew() -> None:
    api = Api(actor=OPERATOR, rate=100.0)
    api.post("/tenants", {"tenant": "acme", "limits": {"waiting_runs": 1}}, 201, tenant=None)
    run = {"job": "greet", "payload": {"to": "Ada"}, "delay": 3_600}
    api.post("/runs", run, 201, tenant="acme")
    answer = api.ask("POST", "/runs", run, tenant="acme")
    said = answer.json()
    assert (answer.status_code, said["code"], said["limit"], said["most"]) == (429, "throttled", "waiting_runs", 1)
    assert (said["seconds"], answer.headers["retry-after"]) == (1.0, "1")
    assert answer.headers["ratelimit-policy"].split(", ")[-1] == '"waiting_runs";q=1'
    assert answer.headers["ratelimit"].split(", ")[-1] == '"waiting_runs";r=0;t=1'
    assert api.get("/tenants/acme/figures", tenant=None)["waiting_runs"] == 1


def test_what_a_limit_refuses_says_which_and_how_much() -> None:
    api = Api(actor=OPERATOR)
    api.post("/tenants", {"tenant": "acme", "limits": {"schedules": 1}}, 201, tenant=None)
    assert api.ask("PUT", "/schedules/a", NIGHTLY, tenant="acme").status_code == 201
    status, said = api.problem("PUT", "/schedules/b", NIGHTLY, tenant="acme")
    assert (status, said["code"], said["field"], said["value"], said["most"]) == (
        403,
        "limit-exceeded",
        "schedules",
        2,
        1,
    )
    assert said["remedy"] == "delete some, or ask an operator of the installation for more"
    assert said["tenant"] == "acme"


def test_open_breakers_are_listed_and_closed() -> None:
    api = Api(actor=OPERATOR)
    assert api.get("/tenants/acme/breakers", tenant=None)["items"] == []
    services, clock = api.harness.memory.connect(), api.harness.clock
    open_breaker_of_all("acme", services, clock())
    open_breaker("acme", "greet", services, clock())
    every, one = api.get("/tenants/acme/breakers", tenant=None)["items"]
    assert (every["job"], one["job"], one["is_open"], one["per_minute"]) == ("*", "greet", True, 1)
    assert api.problem("POST", "/tenants/acme/breakers/reset", {"job": "other"}, tenant=None)[0] == 404
    assert api.post("/tenants/acme/breakers/reset", {"job": "greet"}, tenant=None)["items"] == ["greet"]
    assert api.post("/tenants/acme/breakers/reset", tenant=None)["items"] == ["*"]
    assert api.get("/tenants/acme/breakers", tenant=None)["items"] == []

"""What grants leave of the API: made from its document, so that a route that is added later is tried as well."""

from __future__ import annotations

import pytest
from quarterjack.domain.names import callback_token
from quarterjack.web import Actor

from tests.support.api import BODIES, NIGHTLY, Api, document

READS = {"preview"}  # it asks no table
UNSAFE = [
    (operation["operationId"], method.upper(), path)
    for path, operations in document()["paths"].items()
    for method, operation in operations.items()
    if method != "get" and operation["tags"] != ["operators"] and operation["operationId"] not in READS
]


def granted(*, to: str, can: list[str], jobs: list[str] | None = None) -> tuple[Api, dict[str, str]]:
    """The API asked by an actor who has a grant beside the process's own; and what is there, in addresses."""
    api = Api()
    api.put("/schedules/nightly", NIGHTLY | {"expression": "0 * * * *"}, 201)
    run = api.post("/runs", {"job": "greet", "payload": {"to": "Ada"}, "delay": 3600}, 201)
    body = {"start": "2026-05-04T08:00:00Z", "end": "2026-05-04T10:00:00Z", "current": True}
    backfill = api.ask("POST", "/schedules/nightly/backfills", body).json()["id"]
    operator = Api(scheduler=api.scheduler, actor=Actor(operator=True))
    operator.post("/tenants/default/grants", {"to": "iam:*", "can": ["admin"]}, tenant=None)
    operator.post("/tenants/default/grants", {"to": f"app:{to}", "can": can, "jobs": jobs or ["*"]}, tenant=None)
    asking = Api(scheduler=api.scheduler, actor=Actor(name=to))
    asking.harness = api.harness
    return asking, {
        "tenant": "default",
        "name": "nightly",
        "run": run["url_id"],
        "backfill": backfill,
        "token": callback_token(run["id"], "go"),
        "link": "0" * 12,
        "task": "report",
        "version": "1.4",
    }


@pytest.mark.parametrize(("operation", "method", "path"), UNSAFE, ids=[operation for operation, _, _ in UNSAFE])
def test_who_may_only_read_changes_nothing(operation: str, method: str, path: str) -> None:
    api, there = granted(to="eve@acme", can=["viewer"])
    before = (api.get("/schedules"), api.get("/runs"), api.get("/freeze"))
    answer = api.client.request(method, path.format(**there), json=BODIES.get(operation, {}))
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), answer.text
    assert answer.json()["verb"]
    assert (api.get("/schedules"), api.get("/runs"), api.get("/freeze")) == before


def test_a_viewer_sees_no_payload() -> None:
    api, there = granted(to="eve@acme", can=["viewer"])
    schedule = api.get("/schedules/nightly")
    assert schedule["masked"]
    assert "payload" not in schedule["definition"]
    run = api.get(f"/runs/{there['run']}")
    assert (run["masked"], run["payload"]) == (True, None)
    assert api.problem("GET", "/declarations")[1]["verb"] == "read-payloads"
    assert api.problem("GET", "/audit")[1]["verb"] == "read-audit"


def test_a_patch_keeps_no_payload_that_its_sender_may_not_see() -> None:
    api, _ = granted(to="eve@acme", can=["viewer", "update"])
    for patch in ({"timezone": "UTC"}, {"payload": {"to": "Eve"}}):
        assert api.problem("PATCH", "/schedules/nightly", patch)[1]["code"] == "forbidden"
    changed = api.ask("PATCH", "/schedules/nightly", {"payload": ["Eve"], "timezone": "UTC"})
    assert changed.json()["definition"]["timezone"] == "UTC"
    assert api.scheduler.get_schedule("nightly").payload == ["Eve"]


def test_a_put_of_what_was_read_removes_no_payload_that_its_sender_may_not_see() -> None:
    api, _ = granted(to="eve@acme", can=["viewer", "update"])
    read = api.get("/schedules/nightly")
    assert read["masked"]
    status, problem = api.problem("PUT", "/schedules/nightly", read["definition"])
    assert (status, problem["code"], problem["verb"]) == (403, "forbidden", "read-payloads")
    assert "would remove it unseen" in problem["detail"]
    assert api.scheduler.get_schedule("nightly").payload == NIGHTLY["payload"]
    changed = api.put("/schedules/nightly", read["definition"] | {"payload": ["Eve"], "timezone": "UTC"})
    assert changed["definition"]["timezone"] == "UTC"
    assert api.scheduler.get_schedule("nightly").payload == ["Eve"]
    api.scheduler.update_schedule("nightly", payload=None)
    assert api.put("/schedules/nightly", read["definition"] | {"timezone": "Asia/Tokyo"})["masked"], (
        "there is none to lose"
    )
    api.scheduler.delete_schedule("nightly")
    assert api.problem("PUT", "/schedules/nightly", read["definition"])[1]["verb"] == "create"


def test_who_may_change_and_not_read_gets_the_answer_of_the_change() -> None:
    api, _ = granted(to="eve@acme", can=["pause", "create"])
    assert api.post("/schedules/nightly/pause", {"reason": "x"})["state"] == "PAUSED"
    made = api.put("/schedules/other", NIGHTLY, 201)
    assert (made["name"], made["definition"]) == ("other", {})
    assert api.problem("GET", "/schedules/other")[0] == 403


def test_a_grant_of_one_job_is_for_its_schedules() -> None:
    api, _ = granted(to="eve@acme", can=["editor"], jobs=["fail"])
    assert api.problem("GET", "/schedules/nightly")[0] == 403
    assert api.problem("PUT", "/schedules/nightly", NIGHTLY)[0] == 403
    api.put("/schedules/mine", NIGHTLY | {"job": "fail"}, 201)
    assert [one["name"] for one in api.get("/schedules?job=fail")["items"]] == ["mine"]
    assert (
        api.problem("GET", "/schedules/nightly")[1]["detail"].replace("nightly", "none")
        == (api.problem("GET", "/schedules/none")[1]["detail"])
    ), "whether it exists is not said"

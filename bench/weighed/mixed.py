"""The jobs of ``bench growth``, and one that says what its worker holds: one line of JSON in the file that it is given."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import resource
import sys
import threading
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

from quarterjack import Context, Retry, job

_OFTEN = Retry(max_attempts=3, base=0.2, cap=1.0)
_MOST = 25  # kinds of objects and places of allocation that are named
_FRAMES = 6  # of a place


@job("growth.echo")
def echo(_: Context, payload: dict[str, Any]) -> Any:
    """Return what it was given."""
    return payload["text"]


@job("growth.plain")
def plain(ctx: Context, payload: dict[str, Any]) -> None:
    ctx.logger.info("growth.plain", extra={"size": len(payload["text"])})


@job("growth.fails", retry=_OFTEN)
def fails(ctx: Context, payload: dict[str, Any]) -> None:
    if ctx.attempt < payload["succeeds_at"]:
        raise ConnectionError(f"not yet: {payload['text'][:200]}")


@job("growth.awaits")
async def awaits(_: Context, payload: dict[str, Any]) -> int:
    await asyncio.sleep(0.05)
    return len(payload["text"])


@job("growth.looks_up", cancel_grace=5)
def looks_up(ctx: Context, payload: dict[str, Any]) -> None:
    """Report progress until it is cancelled or has done enough."""
    for tenth in range(10):
        ctx.progress(tenth / 10, f"tenth {tenth}")
        ctx.raise_if_cancelled()
        time.sleep(payload["seconds"] / 10)


@job("growth.steps", delivery="exactly_once")
def steps(ctx: Context, payload: dict[str, Any]) -> None:
    ctx.step("first", lambda: payload["text"][:1_000])


@job("growth.isolated", isolation="process")
def isolated(_: Context, payload: dict[str, Any]) -> int:
    return len(payload["text"])


@job("growth.holds")
def holds(_: Context, payload: dict[str, Any]) -> None:
    """What this process holds: objects by type, threads, the allocator's own figures and, if it traces, bytes by place."""
    gc.collect()
    kinds = Counter(map(type, gc.get_objects()))
    found: dict[str, Any] = {
        "at": time.time(),
        "objects": kinds.total(),
        "blocks": sys.getallocatedblocks(),
        "threads": threading.active_count(),
        "heap": heap(),
        "kinds": {f"{kind.__module__}.{kind.__qualname__}": count for kind, count in kinds.most_common(_MOST)},
    }
    if payload["trace"] and not tracemalloc.is_tracing():
        tracemalloc.start(_FRAMES)  # from here on: what was there before is not counted
    elif tracemalloc.is_tracing():
        taken = tracemalloc.take_snapshot()
        found["traced"] = sum(trace.size for trace in taken.traces)
        found["places"] = {
            " < ".join(reversed(each.traceback.format(_FRAMES)[::2])): (each.size, each.count)
            for each in taken.statistics("traceback")[:_MOST]
        }
    if payload["trim"]:
        found["resident_mb"] = [resident(), (ctypes.CDLL(None).malloc_trim(0), resident())[1]]
    with Path(payload["file"]).open("a") as sink:
        sink.write(json.dumps(found) + "\n")


def resident() -> float:
    """Megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * resource.getpagesize() / 2**20, 2)


def heap() -> dict[str, int]:
    """Bytes of glibc's arenas: taken from the system, of these in use, and free; nothing elsewhere."""

    class Info(ctypes.Structure):
        _fields_ = [
            (name, ctypes.c_size_t)
            for name in (
                "arena",
                "ordblks",
                "smblks",
                "hblks",
                "hblkhd",
                "usmblks",
                "fsmblks",
                "uordblks",
                "fordblks",
                "keepcost",
            )
        ]

    try:
        ask = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return {}
    ask.restype = Info
    told = ask()
    return {"taken": told.arena, "mapped": told.hblkhd, "used": told.uordblks, "free": told.fordblks}

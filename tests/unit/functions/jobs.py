"""Jobs of a worker that is started by a test."""

from __future__ import annotations

from quarterjack import Context, job


@job("bench.nothing")
def nothing(ctx: Context, payload: object) -> None:
    """Nothing."""

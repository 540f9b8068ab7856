"""A job whose module imports nothing of its own."""

from __future__ import annotations

from quarterjack import Context, Registry

registry = Registry()


@registry.job("isolated.small", isolation="process")
def small(ctx: Context, payload: object) -> None:
    """Do nothing."""

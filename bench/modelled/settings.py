"""What whoever installs Quarterjack can choose, and what they ask AWS for."""

from __future__ import annotations

from dataclasses import dataclass

from quarterjack.settings import (
    DEFAULT_REQUESTS,
    DEFAULT_SHARDS,
    DEFAULT_TICKER_GROUPS,
    DEFAULT_TICKER_THREADS,
    DEFAULT_TICKER_WRITES,
)
from quarterjack.state.capacity.figures import JOB, NEW_TABLE_WRITES

from bench.modelled.assumptions import ACCOUNT, TABLE_QUOTA


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The defaults are those of a fresh installation in a fresh account."""

    name: str = "as installed"
    shards: int = DEFAULT_SHARDS
    invocations: int = DEFAULT_TICKER_GROUPS  # of the ticker side by side, at the most: `ticker_groups`
    ticker_writes: int = DEFAULT_TICKER_WRITES  # units a second that the claims of a tick may take; 0: any
    threads: int = DEFAULT_TICKER_THREADS  # shards that each is at, at once
    requests: int = DEFAULT_REQUESTS  # of one stage that it has under way at once
    queues: int = 1  # that the queue of all runs consists of: its stripes
    pollers: int | None = None  # provisioned ones kept for each stripe; None: standard polling
    most_pollers: int | None = None  # that provisioned polling may grow to; None: as many as are kept
    warm_writes: float = NEW_TABLE_WRITES.value  # units a second that each table takes at once
    quota_writes: float = TABLE_QUOTA.value  # and to which it may grow
    functions: float = ACCOUNT.value  # at once, of the account
    warm_functions: float = 0  # whose environments are there already: stats of just before, or provisioned concurrency
    job_ms: float = JOB.value
